import { composeAnswer, type Answer, eventStream, type StreamedEvent } from "./answer.ts";
import type { JsonFields } from "../../lib/json.ts";
import { readCount, readModel, measurePrompt, type Prompt, DemoError } from "./request.ts";

/** Answers POST /v1/responses with JSON or a stream. Throws DemoError for an invalid request. */
export function answerResponses(fields: JsonFields, wordDelayMs: number): Response {
  const head = heading(fields, readModel(fields));
  const prompt = measurePrompt(readInput(fields));
  const answer = composeAnswer(prompt.userWords, 0, {
    tokensMax: readCount(fields, "max_output_tokens"),
  });
  if (fields["stream"] !== true)
    return Response.json(finished(head, prompt, answer, message(answer)));
  return eventStream(responseEvents(head, prompt, answer), wordDelayMs);
}

/** The input as messages. A text is one user message, and instructions are a system message. */
function readInput(fields: JsonFields): readonly unknown[] {
  const { input, instructions } = fields;
  const isContinued = typeof fields["previous_response_id"] === "string";
  if (typeof input !== "string" && !Array.isArray(input) && !isContinued)
    throw new DemoError(400, "Invalid 'input': expected a string or an array.", "input");
  const items: readonly unknown[] = Array.isArray(input)
    ? input
    : [{ role: "user", content: input }];
  return typeof instructions === "string"
    ? [{ role: "system", content: instructions }, ...items]
    : items;
}

/** The events of a stream, in the order and with the fields of OpenAI's interface. */
function* responseEvents(
  head: JsonFields,
  prompt: Prompt,
  answer: Answer,
): Generator<StreamedEvent> {
  let sequenceNumber = 0;
  const event = (type: string, fields: JsonFields, isWord = false): StreamedEvent => {
    const data = JSON.stringify({ type, sequence_number: sequenceNumber++, ...fields });
    return { frame: `event: ${type}\ndata: ${data}\n\n`, isWord };
  };
  const item = message(answer);
  const position = { item_id: item.id, output_index: 0, content_index: 0 };
  const emptyItem = { ...item, status: "in_progress", content: [] };

  yield event("response.created", { response: head });
  yield event("response.in_progress", { response: head });
  yield event("response.output_item.added", { output_index: 0, item: emptyItem });
  yield event("response.content_part.added", { ...position, part: textPart("") });
  for (const word of answer.words) {
    yield event("response.output_text.delta", { ...position, delta: word, logprobs: [] }, true);
  }
  yield event("response.output_text.done", { ...position, text: answer.text, logprobs: [] });
  yield event("response.content_part.done", { ...position, part: textPart(answer.text) });
  yield event("response.output_item.done", { output_index: 0, item });
  yield event(`response.${statusOf(answer)}`, { response: finished(head, prompt, answer, item) });
}

/** A response without output. Settings that the request omits have their defaults. */
function heading(fields: JsonFields, model: string): JsonFields {
  return {
    id: newId("resp"),
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    status: "in_progress",
    background: false,
    error: null,
    incomplete_details: null,
    instructions: fields["instructions"] ?? null,
    max_output_tokens: fields["max_output_tokens"] ?? null,
    model,
    output: [],
    parallel_tool_calls: fields["parallel_tool_calls"] ?? true,
    previous_response_id: fields["previous_response_id"] ?? null,
    reasoning: { effort: null, summary: null },
    service_tier: "default",
    store: fields["store"] ?? true,
    temperature: fields["temperature"] ?? 1,
    text: { format: { type: "text" } },
    tool_choice: fields["tool_choice"] ?? "auto",
    tools: fields["tools"] ?? [],
    top_p: fields["top_p"] ?? 1,
    truncation: "disabled",
    usage: null,
    user: null,
    metadata: fields["metadata"] ?? {},
  };
}

function finished(head: JsonFields, prompt: Prompt, answer: Answer, item: JsonFields): JsonFields {
  return {
    ...head,
    status: statusOf(answer),
    incomplete_details: answer.finish === "length" ? { reason: "max_output_tokens" } : null,
    output: [item],
    usage: {
      input_tokens: prompt.tokens,
      input_tokens_details: { cached_tokens: prompt.cachedTokens },
      output_tokens: answer.tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: prompt.tokens + answer.tokens,
    },
  };
}

function message(answer: Answer): JsonFields & { readonly id: string } {
  return {
    id: newId("msg"),
    type: "message",
    status: statusOf(answer),
    role: "assistant",
    content: [textPart(answer.text)],
  };
}

function statusOf(answer: Answer): "completed" | "incomplete" {
  return answer.finish === "length" ? "incomplete" : "completed";
}

function textPart(text: string): JsonFields {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function newId(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
}
