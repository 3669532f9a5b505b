import { composeAnswer, type Answer, eventStream, type StreamedEvent } from "./answer.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  missing,
  readCount,
  readModel,
  wrongType,
  measurePrompt,
  type Prompt,
  DemoError,
} from "./request.ts";

const CHOICES_MAX = 128;
const STOP_SEQUENCES_MAX = 4;

/** Answers POST /v1/chat/completions, as JSON or as a stream. Throws a Refusal for a request that makes no sense. */
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
  const messages = fields["messages"];
  if (messages === undefined || messages === null) throw missing("messages");
  if (!Array.isArray(messages)) throw wrongType("messages", "an array of objects");
  if (messages.length === 0) {
    const details = { param: "messages", code: "empty_array" };
    throw new DemoError(
      400,
      "Invalid 'messages': empty array. Expected an array with minimum length 1.",
      details,
    );
  }
  const stranger = messages.findIndex(
    (message) => !isJsonObject(message) || typeof message["role"] !== "string",
  );
  if (stranger >= 0) throw wrongType(`messages[${stranger}]`, "an object with a role");
  return messages;
}

function readStop(fields: JsonFields): string[] {
  const stop = fields["stop"] ?? [];
  const sequences: unknown[] = Array.isArray(stop) ? stop : [stop];
  const texts = sequences.filter((sequence) => typeof sequence === "string");
  if (texts.length < sequences.length || texts.length > STOP_SEQUENCES_MAX) {
    throw wrongType("stop", `a string or an array of up to ${STOP_SEQUENCES_MAX} strings`);
  }
  return texts;
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

/** The chunks of a stream: a role for each choice, then a word of each in turn, the ends, the usage if asked for. */
function* completionEvents(
  model: string,
  prompt: Prompt,
  answers: readonly Answer[],
  withUsage: boolean,
): Generator<StreamedEvent> {
  const head = heading("chat.completion.chunk", model);
  // A client that asks for the usage finds the field in every chunk, as null until the last.
  const noUsageYet = withUsage ? { usage: null } : {};
  const chunk = (index: number, delta: object, finishReason: string | null = null): string =>
    frame({
      ...head,
      choices: [{ index, delta, logprobs: null, finish_reason: finishReason }],
      ...noUsageYet,
    });

  for (const index of answers.keys()) {
    yield { frame: chunk(index, { role: "assistant", content: "", refusal: null }), isWord: false };
  }
  const wordsMax = Math.max(...answers.map((answer) => answer.words.length));
  for (let place = 0; place < wordsMax; place += 1) {
    for (const [index, answer] of answers.entries()) {
      const word = answer.words[place];
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
