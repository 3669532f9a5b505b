/** Texts of an OpenAI-compatible provider, for servers that send raw bytes. Taken from the interface's documentation. */

/** The head of an event stream that ends with its connection. */
export const eventStreamHead =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/** One event of a chat stream. */
export function chatEvent(
  delta: object,
  finishReason: string | null = null,
  more: object = {},
): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
  return `data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`;
}

/** One event of a responses stream. */
export function responseEvent(type: string, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** A response object; `more` overrides fields. */
export function responseObject(id: string, more: object = {}): Record<string, unknown> {
  return {
    id,
    object: "response",
    created_at: 1,
    status: "in_progress",
    model: "m",
    output: [],
    usage: null,
    ...more,
  };
}
