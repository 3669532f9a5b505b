import { composeAnswer, type Answer, eventStream, type StreamedEvent } from "./answer.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { readCount, readModel, measurePrompt, type Prompt, DemoError } from "./request.ts";

const CHOICES_MAX = 128;

/** Answers POST /v1/chat/completions with JSON or a stream. Throws DemoError for an invalid request. */
export function answerChat(fields: JsonFields, wordDelayMs: number): Response {
  const model = readModel(fields);
  const prompt = measurePrompt(readMessages(fields));
  const limits = {
    tokensMax: readCount(fields, "max_completion_tokens") ?? readCount(fields, "max_tokens"),
    stop: readStop(fields),
  };
  const choiceCount = readCount(fields, "n", CHOICES_MAX) ?? 1;
  const answers = Array.from({ length: choiceCount }, (_, choice) =>
    composeAnswer(prompt.userWords, choice, limits),
  );
  if (fields["stream"] !== true) return Response.json(completion(model, prompt, answers));
  return eventStream(completionEvents(model, prompt, answers, asksForUsage(fields)), wordDelayMs);
}

function readMessages(fields: JsonFields): readonly unknown[] {
  const { messages } = fields;
  if (Array.isArray(messages) && messages.length > 0) return messages;
  throw new DemoError(400, "Invalid 'messages': expected a non-empty array.", "messages");
}

function readStop({ stop }: JsonFields): readonly string[] {
  return [stop].flat().filter((sequence) => typeof sequence === "string");
}

function asksForUsage(fields: JsonFields): boolean {
  const options = fields["stream_options"];
  return isJsonObject(options) && options["include_usage"] === true;
}

function completion(model: string, prompt: Prompt, answers: readonly Answer[]): object {
  return {
    ...heading("chat.completion", model),
    choices: answers.map((answer, index) => ({
      index,
      message: { role: "assistant", content: answer.text, refusal: null, annotations: [] },
      logprobs: null,
      finish_reason: answer.finish,
    })),
    usage: usage(prompt, answers),
  };
}

/** The chunks of a stream: the roles, the words of the choices in turn, the finish reasons, the usage if requested. */
function* completionEvents(
  model: string,
  prompt: Prompt,
  answers: readonly Answer[],
  withUsage: boolean,
): Generator<StreamedEvent> {
  const head = heading("chat.completion.chunk", model);
  // If the usage is requested, each chunk has the field; it is null until the last.
  const emptyUsage = withUsage ? { usage: null } : {};
  const chunk = (index: number, delta: object, finishReason: string | null = null): string =>
    frame({
      ...head,
      choices: [{ index, delta, logprobs: null, finish_reason: finishReason }],
      ...emptyUsage,
    });

  for (const index of answers.keys()) {
    yield { frame: chunk(index, { role: "assistant", content: "", refusal: null }), isWord: false };
  }
  const wordsMax = Math.max(...answers.map((answer) => answer.words.length));
  for (let at = 0; at < wordsMax; at += 1) {
    for (const [index, answer] of answers.entries()) {
      const word = answer.words[at];
      if (word !== undefined) yield { frame: chunk(index, { content: word }), isWord: index === 0 };
    }
  }
  for (const [index, answer] of answers.entries()) {
    yield { frame: chunk(index, {}, answer.finish), isWord: false };
  }
  if (withUsage)
    yield { frame: frame({ ...head, choices: [], usage: usage(prompt, answers) }), isWord: false };
  yield { frame: "data: [DONE]\n\n", isWord: false };
}

function frame(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function heading(object: string, model: string): object {
  return {
    id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model,
    service_tier: "default",
    system_fingerprint: "fp_demo",
  };
}

function usage(prompt: Prompt, answers: readonly Answer[]): object {
  const completionTokens = answers.reduce((sum, answer) => sum + answer.tokens, 0);
  return {
    prompt_tokens: prompt.tokens,
    completion_tokens: completionTokens,
    total_tokens: prompt.tokens + completionTokens,
    prompt_tokens_details: { cached_tokens: prompt.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}
