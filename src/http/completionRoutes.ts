import { ChatAnswer } from "../contract/chat/chatAnswerSchemas.ts";
import { ChatRequestBody } from "../contract/chat/chatRequestBody.ts";
import { EmbeddingsAnswer, EmbeddingsRequestBody } from "../contract/embeddings.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { MessagesAnswer, MessagesError, TokenCount } from "../contract/messages/messagesAnswer.ts";
import {
  CountTokensRequestBody,
  MessagesRequestBody,
} from "../contract/messages/messagesRequest.ts";
import { costHeader, estimatedHeader } from "../contract/openapi/answers.ts";
import { ResponsesAnswer, ResponsesRequestBody } from "../contract/responses.ts";
import { chat } from "../gateway/endpoints/chat.ts";
import { countTokens } from "../gateway/endpoints/countTokens.ts";
import { embeddings } from "../gateway/endpoints/embeddings.ts";
import { messages } from "../gateway/endpoints/messages.ts";
import { responses } from "../gateway/endpoints/responses.ts";
import { declaredRoute } from "./declaredRoute.ts";

// A route here is all that Elysia, Bun's router, /openapi.json, OPTIONS and the metrics need of it.
// These routes declare their body only for the types and for /openapi.json. With `parse: "none"` Elysia neither reads nor
// checks it. requestBody.ts and src/contract do, because the client's own text is forwarded.

/** The 400 answers that the schema of one field cannot express. */
const refusals = [
  "These also get a 400: a key that appears twice in an object, a known field in other upper or lower case (`Model`),",
  "two different limits for the answer's tokens, another server's name for such a limit or for `n` (`n_predict`),",
  "`background` or `deferred` other than false,",
  "a tool or a field that may cost more than tokens (`image_generation`, `modalities`, `service_tier` of `priority`),",
  "a `cache_control` with a `ttl` over `5m`, fields and types of tools that the operator refuses,",
  "an announced trailer, and a body over the operator's size limit.",
].join(" ");

/** POST /v1/chat/completions. */
export const createChatCompletion = declaredRoute({
  path: "/v1/chat/completions" as const,
  endpoint: "chat",
  answer: chat,
  parse: "none" as const,
  detail: {
    operationId: "createChatCompletion",
    tags: ["completions"],
    summary: "Creates a chat completion",
    description: [
      "The gateway checks in this order: the key, its request rate, the body, the model, the key's token rate, the balance.",
      "A key whose money pays for nothing gets its 402 before the body is read.",
      "It holds the most that the request can cost before it sends the request to a provider.",
      "It charges the cost before it sends the end of the answer.",
      "If the request sets no limit for the answer's tokens, the limit is what the account can pay.",
    ].join(" "),
    requestBody: {
      description: [
        "By default fields that are not listed are forwarded as they are, at any depth.",
        "An operator can refuse them instead (400, `<field> is not supported`). Then `n`, `stream_options`",
        "and the other names of `max_tokens` are refused too, and the `content` of a message must be a string.",
        refusals,
      ].join(" "),
      content: {},
    },
    responses: {
      200: paidAnswer("The answer.", {
        description: [
          "The answer with `stream`. Each event is a line `data: ` with a ChatChunk in JSON, and a blank line.",
          "The last event is `data: [DONE]`. Comment lines (`: keep-alive`) keep an idle connection open.",
        ].join(" "),
        example: chatStream(),
      }),
    },
  },
  body: ChatRequestBody,
  response: { 200: ChatAnswer, ...errorAnswers(400, 401, 402, 404, 429, 502) },
});

/** POST /v1/responses. */
export const createResponse = declaredRoute({
  path: "/v1/responses" as const,
  endpoint: "responses",
  answer: responses,
  parse: "none" as const,
  detail: {
    operationId: "createResponse",
    tags: ["completions"],
    summary: "Creates a response",
    description: [
      "If the provider has this interface, the gateway replaces the model's name in the body and forwards the rest as it is.",
      "The client gets the bytes of the provider's answer.",
      "Otherwise the gateway translates the request into a chat and its answer back, unless `store` is true.",
      "Checks, hold and charge are those of a chat. Only `max_output_tokens` limits the answer's tokens.",
      "A GET that asks for a WebSocket is a 426.",
    ].join(" "),
    requestBody: {
      description: [
        "The provider checks the fields that are not listed. A translated request with a field or a tool that a chat cannot express is a 400.",
        "`request_id` gets a 400, because some providers would use it as the id of the response.",
        "A stored object that the request names must come from a response of this account, or the operator must share it.",
        refusals,
      ].join(" "),
      content: {},
    },
    responses: {
      200: paidAnswer("The answer.", {
        description: [
          "The answer with `stream`: the events of the interface. The last event is `response.completed`,",
          "`response.incomplete`, `response.failed`, or `error` if the provider failed during the answer.",
          "Comment lines (`: keep-alive`) keep an idle connection open.",
        ].join(" "),
      }),
    },
  },
  body: ResponsesRequestBody,
  response: { 200: ResponsesAnswer, ...errorAnswers(400, 401, 402, 404, 429, 502) },
});

/** POST /v1/embeddings. */
export const createEmbedding = declaredRoute({
  path: "/v1/embeddings" as const,
  endpoint: "embeddings",
  answer: embeddings,
  parse: "none" as const,
  detail: {
    operationId: "createEmbedding",
    tags: ["completions"],
    summary: "Turns texts into vectors",
    description: [
      "The gateway replaces the model's name in the body and forwards the rest as it is, unless the provider has another interface.",
      "Checks, hold and charge are those of a chat. Only the input has a price.",
    ].join(" "),
    requestBody: {
      description: [
        "By default fields that are not listed are forwarded as they are. An operator can refuse them instead",
        "(400, `<field> is not supported`), and sets the most inputs of a request.",
        "These also get a 400: inputs of several types, a model of another kind, `stream` other than false,",
        "`messages`, and what `/v1/chat/completions` refuses of every request.",
      ].join(" "),
      content: {},
    },
    responses: { 200: { description: "The vectors.", headers: costHeader } },
  },
  body: EmbeddingsRequestBody,
  response: { 200: EmbeddingsAnswer, ...errorAnswers(400, 401, 402, 404, 429, 502) },
});

/** The 400 answers of Anthropic's interface that the schema of one field cannot express. */
const messagesRefusals = [
  "These also get a 400: a key that appears twice in an object, a known field in other upper or lower case (`Model`),",
  "`container`, `fallbacks` and other fields that name what belongs to the operator's account,",
  "a tool or a field that may cost more than tokens, such as `inference_geo` other than `global`,",
  "a web search, a `cache_control` of `1h` or a value of `anthropic-beta` that the operator's prices do not cover,",
  "and fields and types of tools that the operator refuses.",
].join(" ");

/** All errors have Anthropic's form. */
const messagesErrors = {
  400: MessagesError,
  401: MessagesError,
  404: MessagesError,
  429: MessagesError,
  502: MessagesError,
};

/** POST /v1/messages. */
export const createMessage = declaredRoute({
  path: "/v1/messages" as const,
  endpoint: "messages",
  answer: messages,
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
      description: ["The provider checks the fields that are not listed.", messagesRefusals].join(
        " ",
      ),
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
  response: { 200: MessagesAnswer, 402: MessagesError, ...messagesErrors },
});

/** POST /v1/messages/count_tokens. */
export const countMessageTokens = declaredRoute({
  path: "/v1/messages/count_tokens" as const,
  endpoint: "count_tokens",
  answer: countTokens,
  parse: "none" as const,
  detail: {
    operationId: "countMessageTokens",
    tags: ["completions"],
    summary: "Counts the tokens of a prompt",
    description: [
      "A provider of kind anthropic counts them. If none does, the answer is the gateway's estimate, with the header",
      "`x-tollgate-estimated: true`. It costs nothing. The key's request rate counts it.",
    ].join(" "),
    requestBody: { description: messagesRefusals, content: {} },
    responses: { 200: { description: "The count.", headers: estimatedHeader } },
  },
  body: CountTokensRequestBody,
  response: { 200: TokenCount, ...messagesErrors },
});

/** Describes an answer that costs money, as JSON or as a stream. */
function paidAnswer(
  description: string,
  { description: eventsDescription, ...example }: { description: string; example?: string },
) {
  const schema = { type: "string" as const, description: eventsDescription };
  return {
    description,
    headers: costHeader,
    content: { "text/event-stream": { schema, ...example } },
  };
}

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
