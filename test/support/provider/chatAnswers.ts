import { json, stream, type ProviderAnswer } from "./scriptedProvider.ts";
import { chatEvent } from "./upstreamText.ts";

/** Answers of the chat completions interface, in the form that OpenAI documents. */

/** The usual answer: 20 prompt tokens, 5 of them cached and 3 written to the cache, and 7 completion tokens. */
export const usage = {
  prompt_tokens: 20,
  completion_tokens: 7,
  total_tokens: 27,
  prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
};

export function completion(changes: object = {}): Record<string, unknown> {
  return {
    id: "chatcmpl-of-the-provider",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "model-of-the-provider",
    choices: [choice()],
    usage,
    ...changes,
  };
}

export function choice(message: object = {}, changes: object = {}): Record<string, unknown> {
  return {
    index: 0,
    finish_reason: "stop",
    message: { role: "assistant", content: "Hello there", ...message },
    ...changes,
  };
}

/** A JSON answer; `changes` override its fields. */
export function answered(changes: object = {}): ProviderAnswer {
  return json(completion(changes));
}

/** The events of a usual stream: a role, two texts, the end, and the usage. */
export const roleEvent = chatEvent({ role: "assistant", content: "" });
export const helloEvent = chatEvent({ content: "Hello" });
export const thereEvent = chatEvent({ content: " there" });
export const stopEvent = chatEvent({}, "stop");
export const usageEvent = usageOnly(usage);
export const doneEvent = "data: [DONE]\n\n";

/** The last chunk of a stream, which has only the usage. */
export function usageOnly(reported: unknown): string {
  const chunk = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
  return `data: ${JSON.stringify({ ...chunk, choices: [], usage: reported })}\n\n`;
}

export const streamed: ProviderAnswer = stream(
  roleEvent,
  helloEvent,
  thereEvent,
  stopEvent,
  usageEvent,
  doneEvent,
);

/** The usual answer in whichever form was asked for. */
export const usual: ProviderAnswer = (peer, request) =>
  request.json["stream"] === true ? streamed(peer, request) : json(completion())(peer, request);
