import { headers, keyHeaders } from "./answerHeaders.ts";
import { errorsOf } from "./errorAnswers.ts";
import { jsonContent } from "./operationParts.ts";

/** POST /v1/chat/completions. */
export function createChatCompletion(): object {
  return {
    operationId: "createChatCompletion",
    tags: ["completions"],
    summary: "Answers a conversation",
    description: [
      "Checked in this order: the key, its request rate, the body, the model, its token rate, the balance.",
      "Before the request leaves for a provider, the most that it can cost is held; what it did cost is charged",
      "before the end of its answer leaves. Without a bound of its own an answer is bounded by what the account can pay.",
    ].join(" "),
    requestBody: {
      required: true,
      description: [
        "By default fields that are not listed reach the provider as they are, at any depth.",
        "A gateway may be set to refuse them instead (400, `<field> is not supported`); then `n`, `stream_options`",
        "and the other names of `max_tokens` are refused too, and the `content` of a message must be a string.",
        refusals,
      ].join(" "),
      content: jsonContent("ChatRequest"),
    },
    responses: {
      200: answered("The answer.", "ChatAnswer", {
        description: [
          "With `stream`. Each event is a line `data: ` with a ChatChunk in JSON and a blank line;",
          "the last one is `data: [DONE]`. Comment lines (`: keep-alive`) keep a quiet connection open.",
        ].join(" "),
        example: chatStream(),
      }),
      ...errorsOf(400, 401, 402, 404, 429, 502),
    },
  };
}

/** POST /v1/responses. */
export function createResponse(): object {
  return {
    operationId: "createResponse",
    tags: ["completions"],
    summary: "Passes a request through to a provider's own Responses interface",
    description: [
      "The body reaches the provider as it is, but for the model's name, and the answer comes back byte for byte.",
      "Checked, held and charged as a chat is. Only `max_output_tokens` bounds the answer here.",
    ].join(" "),
    requestBody: {
      required: true,
      description: [
        "Fields that are not listed are the provider's to judge.",
        "Only `request_id` is refused (400): some providers would give the response that id.",
        "Stored objects that the request names must come from responses of this account, or be shared by the operator.",
        refusals,
      ].join(" "),
      content: jsonContent("ResponsesRequest"),
    },
    responses: {
      200: answered("The provider's answer.", "ResponsesAnswer", {
        description: [
          "With `stream`: the provider's events. The last one is `response.completed`, `response.incomplete` or",
          "`response.failed`, or an `error` where the provider failed on the way.",
          "Comment lines (`: keep-alive`) keep a quiet connection open.",
        ].join(" "),
      }),
      ...errorsOf(400, 401, 402, 404, 429, 502),
    },
  };
}

/** What no schema of one field can say. */
const refusals = [
  "Refused with a 400 are also: a key that stands twice in any object, a known field in other letters (`Model`),",
  "two different bounds of the answer's tokens, another server's name for a bound or for `n` (`n_predict`),",
  "`background` and `deferred` other than false, `service_tier` other than `auto` and `default`,",
  "a `cache_control` with a `ttl` beyond `5m`, further fields that the operator names, tools of a type that the operator refuses, an announced trailer, and a body over the operator's size limit.",
].join(" ");

/** An answer that costs something, in JSON or as events. */
function answered(
  description: string,
  schemaName: string,
  events: { readonly description: string; readonly example?: string },
): object {
  const { description: eventsDescription, ...example } = events;
  return {
    description,
    headers: { ...keyHeaders, ...headers({ "x-tollgate-cost-rub": "CostOfJson" }) },
    content: {
      ...jsonContent(schemaName),
      "text/event-stream": {
        schema: { type: "string", description: eventsDescription },
        ...example,
      },
    },
  };
}

/** A short stream, for a reader. */
function chatStream(): string {
  const chunk = (delta: object, finish_reason: string | null): string => {
    const choices = [{ index: 0, delta, finish_reason }];
    const envelope = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000 };
    return `data: ${JSON.stringify({ ...envelope, model: "gpt-5-mini", choices })}\n\n`;
  };
  return [
    chunk({ role: "assistant", content: "" }, null),
    chunk({ content: "Hello" }, null),
    chunk({}, "stop"),
    "data: [DONE]\n\n",
  ].join("");
}
