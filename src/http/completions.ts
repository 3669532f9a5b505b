import type { App } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { ChatAnswer } from "../contract/chat/chatAnswerSchemas.ts";
import { checkChatRequest, type ChatRequest } from "../contract/chat/chatRequest.ts";
import { ChatRequestBody } from "../contract/chat/chatRequestBody.ts";
import {
  checkEmbeddingsRequest,
  EmbeddingsAnswer,
  EmbeddingsRequestBody,
  type EmbeddingsRequest,
} from "../contract/embeddings.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import { costHeader } from "../contract/openapi/answers.ts";
import {
  ResponsesAnswer,
  checkResponsesRequest,
  ResponsesRequestBody,
  type ResponsesRequest,
} from "../contract/responses.ts";
import {
  checkCountTokensRequest,
  checkMessagesRequest,
  type CountTokensRequest,
  type MessagesRequest,
} from "../contract/messages/messagesRequest.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import { chat } from "../gateway/chat.ts";
import type { Answer } from "../gateway/answer.ts";
import { embeddings } from "../gateway/embeddings.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway/gateway.ts";
import { countTokens } from "../gateway/countTokens.ts";
import { messages } from "../gateway/messages.ts";
import { responses } from "../gateway/responses.ts";
import type { JsonFields } from "../lib/json.ts";
import { admit, presentedKey } from "./authentication.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { readBody, type BodyText } from "./requestBody.ts";
import type { ConnectionServer, InFlightRequest } from "./inFlightRequest.ts";
import { RequestLog } from "./requestLog.ts";
import { checkHost, errorResponse, eventStreamResponse, jsonResponse } from "./response.ts";
import { streamBody } from "./streamBody.ts";

/** An endpoint whose requests a provider answers. */
interface Completion<Checked> {
  readonly endpoint: Endpoint | "count_tokens";
  readonly path: string;
  check(value: JsonFields, rules: Config["api"]): Checked;
  answer(gateway: Gateway, context: RequestContext, body: CheckedBody<Checked>): Promise<Answer>;
}

const chatCompletion: Completion<ChatRequest> = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  check: checkChatRequest,
  answer: chat,
};

const response: Completion<ResponsesRequest> = {
  endpoint: "responses",
  path: "/v1/responses",
  check: checkResponsesRequest,
  answer: responses,
};

const message: Completion<MessagesRequest> = {
  endpoint: "messages",
  path: "/v1/messages",
  check: checkMessagesRequest,
  answer: messages,
};

const tokenCount: Completion<CountTokensRequest> = {
  endpoint: "count_tokens",
  path: "/v1/messages/count_tokens",
  check: checkCountTokensRequest,
  answer: countTokens,
};

const embedding: Completion<EmbeddingsRequest> = {
  endpoint: "embeddings",
  path: "/v1/embeddings",
  check: checkEmbeddingsRequest,
  answer: embeddings,
};

/** Answers a POST request. It never rejects. */
export type PostHandler = (request: Request, server: ConnectionServer | null) => Promise<Response>;

export function postChat(app: App): PostHandler {
  return (request, server) => serve(app, chatCompletion, request, server);
}

export function postResponses(app: App): PostHandler {
  return (request, server) => serve(app, response, request, server);
}

export function postEmbeddings(app: App): PostHandler {
  return (request, server) => serve(app, embedding, request, server);
}

export function postMessages(app: App): PostHandler {
  return (request, server) => serve(app, message, request, server);
}

export function postCountTokens(app: App): PostHandler {
  return (request, server) => serve(app, tokenCount, request, server);
}

/** What every checked request has. */
interface CheckedRequest {
  readonly model: string;
  /** Undefined if the endpoint has no streams. */
  readonly stream?: boolean;
}

async function serve<Checked extends CheckedRequest>(
  app: App,
  completion: Completion<Checked>,
  request: Request,
  server: ConnectionServer | null,
): Promise<Response> {
  const log = new RequestLog(app, request, completion.path);
  try {
    checkHost(request);
    const inFlight = admit(app, { request, server, log }, presentedKey(request));
    log.startSpan(request, completion.endpoint);
    const reservation = app.bodies.claim(inFlight.caller.accountId);
    let beginning: Promise<unknown> | undefined;
    try {
      const { maxBodyBytes, sseKeepaliveMs } = inFlight.snapshot.config.server;
      const body = await readBody(request, maxBodyBytes, reservation);
      inFlight.startWaiting();
      const result = await answer(app.gateway, inFlight, completion, body);
      if (result.kind === "stream") {
        inFlight.startStreaming();
        ({ beginning } = result);
        const stream = streamBody(result, app.gateway.deadlines, request.signal, sseKeepaliveMs);
        return eventStreamResponse(log, stream, result.headers);
      }
      inFlight.end();
      return jsonResponse(log, 200, result.body, result.headers);
    } finally {
      // The body is no longer needed once the answer has begun. A stream with an early 200 begins later.
      if (beginning) void beginning.then(() => reservation.release());
      else reservation.release();
    }
  } catch (error) {
    return errorResponse(app, log, error);
  }
}

/** Parses and checks the body, and lets the gateway answer it. Throws ApiError, or rejects with it. */
function answer<Checked extends CheckedRequest>(
  gateway: Gateway,
  inFlight: InFlightRequest,
  completion: Completion<Checked>,
  body: BodyText,
): Promise<Answer> {
  const { value, object } = parseJsonObject(body);
  const request = completion.check(value, inFlight.snapshot.config.api);
  const { model, stream = false } = request;
  inFlight.addLogFields({ endpoint: completion.endpoint, model, stream });
  return completion.answer(gateway, inFlight, { request, object, bodyBytes: body.bytes.length });
}

// These routes declare their body only for the types and for /openapi.json. With `parse: "none"` Elysia neither reads nor
// checks it. requestBody.ts and src/contract do, because the client's own text is forwarded.

/** The 400 answers that the schema of one field cannot express. */
const refusals = [
  "These also get a 400: a key that appears twice in an object, a known field in other upper or lower case (`Model`),",
  "two different limits for the answer's tokens, another server's name for such a limit or for `n` (`n_predict`),",
  "`background` or `deferred` other than false, `service_tier` other than `auto` and `default`,",
  "a `cache_control` with a `ttl` over `5m`, fields and types of tools that the operator refuses,",
  "an announced trailer, and a body over the operator's size limit.",
].join(" ");

/** POST /v1/chat/completions. */
export const createChatCompletion = declaredRoute({
  parse: "none" as const,
  detail: {
    operationId: "createChatCompletion",
    tags: ["completions"],
    summary: "Creates a chat completion",
    description: [
      "The gateway checks in this order: the key, its request rate, the body, the model, the key's token rate, the balance.",
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
  parse: "none" as const,
  detail: {
    operationId: "createResponse",
    tags: ["completions"],
    summary: "Creates a response",
    description: [
      "If the provider has this interface, the gateway replaces the model's name in the body and forwards the rest as it is.",
      "The client gets the bytes of the provider's answer.",
      "Otherwise the gateway translates the request into a chat and its answer back, if `store` is false.",
      "Checks, hold and charge are those of a chat. Only `max_output_tokens` limits the answer's tokens.",
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
