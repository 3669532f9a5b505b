import { json, stream, type ProviderAnswer } from "./scriptedProvider.ts";

/** Answers of the Messages API, in the form of https://platform.claude.com/docs/en/api/messages and .../streaming. */

/** The usual answer: 20 prompt tokens, 5 of them cached and 3 written to the cache, and 7 completion tokens. */
export const messageUsage = {
  input_tokens: 12,
  cache_read_input_tokens: 5,
  cache_creation_input_tokens: 3,
  output_tokens: 7,
};

export function message(changes: object = {}): Record<string, unknown> {
  return {
    id: "msg_of_the_provider",
    type: "message",
    role: "assistant",
    model: "claude-of-the-provider",
    content: [{ type: "text", text: "Hello there" }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: messageUsage,
    ...changes,
  };
}

/** One event of a message's stream. */
export function messageEvent(type: string, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

export function textEvent(text: string): string {
  return messageEvent("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
}

/** The end of a message, with what is reported of its usage. */
export function endEvent(usage: unknown = { output_tokens: 7 }): string {
  const delta = { stop_reason: "end_turn", stop_sequence: null };
  return messageEvent("message_delta", { delta, usage });
}

/** The events of a usual stream. Its first event counts one output token, which has no meaning. */
export const startEvent = messageEvent("message_start", {
  message: message({
    content: [],
    stop_reason: null,
    usage: { ...messageUsage, output_tokens: 1 },
  }),
});
export const pingEvent = messageEvent("ping");
const openingEvent = messageEvent("content_block_start", {
  index: 0,
  content_block: { type: "text", text: "" },
});
const closingEvent = messageEvent("content_block_stop", { index: 0 });
export const stopEvent = messageEvent("message_stop");

/** A stream that begins as usual, with these events after its first text. */
export function begunMessage(...events: readonly string[]): ProviderAnswer {
  return stream(startEvent, openingEvent, pingEvent, textEvent("Hello"), ...events);
}

/** The events of the usual stream. */
export const usualMessageEvents = [
  startEvent,
  openingEvent,
  pingEvent,
  textEvent("Hello"),
  textEvent(" there"),
  closingEvent,
  endEvent(),
  stopEvent,
] as const;

/** The usual answer in whichever form was asked for. */
export const usualMessage: ProviderAnswer = (peer, request) => {
  const answer = request.json["stream"] === true ? stream(...usualMessageEvents) : json(message());
  return answer(peer, request);
};
