import { json, stream, type ProviderAnswer } from "./scriptedProvider.ts";
import { responseEvent, responseObject } from "./upstreamText.ts";

/** Answers of the responses interface, in the form that OpenAI documents. */

/** The usual answer: 20 prompt tokens, 5 of them cached and 3 written to the cache, and 7 completion tokens. */
export const responsesUsage = {
  input_tokens: 20,
  input_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 27,
};

/** A completed response with one message, whose id is `msg_` and the response's id. */
export function ended(id = "resp_1", changes: object = {}): Record<string, unknown> {
  const message = {
    id: `msg_${id}`,
    type: "message",
    status: "completed",
    role: "assistant",
    content: [{ type: "output_text", text: "Hello there", annotations: [] }],
  };
  return responseObject(id, {
    status: "completed",
    output: [message],
    usage: responsesUsage,
    ...changes,
  });
}

/** The events of a usual stream, before its end. */
export function created(id = "resp_1"): string {
  return responseEvent("response.created", { sequence_number: 0, response: responseObject(id) });
}
export const delta = responseEvent("response.output_text.delta", {
  sequence_number: 1,
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta: "Hello there",
});

/** The terminal event of a stream; `status` is `completed`, `incomplete` or `failed`. */
export function terminal(status = "completed", id = "resp_1", changes: object = {}): string {
  return responseEvent(`response.${status}`, {
    sequence_number: 2,
    response: ended(id, { status, ...changes }),
  });
}

/** A whole answer in whichever form is asked for. */
export function responds(id = "resp_1"): ProviderAnswer {
  return (peer, request) => {
    const answer =
      request.json["stream"] === true
        ? stream(created(id), delta, terminal("completed", id))
        : json(ended(id));
    return answer(peer, request);
  };
}
