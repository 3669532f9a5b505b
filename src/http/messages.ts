import { costHeader, estimatedHeader } from "../contract/openapi/answers.ts";
import { MessagesAnswer, TokenCount } from "../contract/messages/messagesAnswer.ts";
import { MessagesError } from "../contract/messages/messagesError.ts";
import {
  CountTokensRequestBody,
  MessagesRequestBody,
} from "../contract/messages/messagesRequest.ts";
import { declaredRoute } from "./declaredRoute.ts";

// The body is declared for the types and for /openapi.json only: see completions.ts.

const refusals = [
  "These also get a 400: a key that appears twice in an object, a known field in other upper or lower case (`Model`),",
  "`container`, `fallbacks` and other fields that name what belongs to the operator's account,",
  "`inference_geo` other than `global`, a `service_tier` other than `auto` and `standard_only`,",
  "a tool of the provider, a `cache_control` of `1h` or a value of `anthropic-beta` that the operator's prices do not cover,",
  "and fields and types of tools that the operator refuses.",
].join(" ");

/** All errors have Anthropic's form. */
const errors = {
  400: MessagesError,
  401: MessagesError,
  404: MessagesError,
  429: MessagesError,
  502: MessagesError,
};

/** POST /v1/messages. */
export const createMessage = declaredRoute({
  parse: "none" as const,
  detail: {
    operationId: "createMessage",
    tags: ["completions"],
    summary: "Creates a message in Anthropic's Messages interface",
    description: [
      "A provider of kind anthropic gets the client's own text with the model's name replaced, and the headers",
      "`anthropic-version` and `anthropic-beta`. The client gets the bytes of its answer.",
      "For other providers the request becomes a chat, and the answer becomes a message.",
      "Checks, hold and charge are those of a chat. `max_tokens` limits the answer.",
    ].join(" "),
    requestBody: {
      description: ["The provider checks the fields that are not listed.", refusals].join(" "),
      content: {},
    },
    responses: {
      200: {
        description: "The answer.",
        headers: costHeader,
        content: {
          "text/event-stream": {
            schema: {
              type: "string" as const,
              description: [
                "The answer with `stream`: the events of Anthropic's interface, from `message_start` to `message_stop`.",
                "The last event is `error` if the provider failed during the answer.",
                "Comment lines (`: keep-alive`) keep an idle connection open.",
              ].join(" "),
            },
          },
        },
      },
    },
  },
  body: MessagesRequestBody,
  response: { 200: MessagesAnswer, 402: MessagesError, ...errors },
});

/** POST /v1/messages/count_tokens. */
export const countMessageTokens = declaredRoute({
  parse: "none" as const,
  detail: {
    operationId: "countMessageTokens",
    tags: ["completions"],
    summary: "Counts the tokens of a prompt",
    description: [
      "A provider of kind anthropic counts them. If none does, the answer is the gateway's estimate, with the header",
      "`x-tollgate-estimated: true`. It costs nothing. The key's request rate counts it.",
    ].join(" "),
    requestBody: { description: refusals, content: {} },
    responses: { 200: { description: "The count.", headers: estimatedHeader } },
  },
  body: CountTokensRequestBody,
  response: { 200: TokenCount, ...errors },
});
