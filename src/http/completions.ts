import type { App } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { ChatAnswer } from "../contract/chat/chatAnswerSchemas.ts";
import { checkChatRequest, type ChatRequest } from "../contract/chat/chatRequest.ts";
import { ChatRequestBody } from "../contract/chat/chatRequestBody.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { ApiError, incompleteRequest, rateLimitExceeded } from "../contract/errors.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import { costHeader } from "../contract/openapi/answers.ts";
import { ResponsesAnswer } from "../contract/responses/responsesAnswer.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import {
  checkResponsesRequest,
  ResponsesRequestBody,
  type ResponsesRequest,
} from "../contract/responses/responsesRequest.ts";
import { chat } from "../gateway/chat.ts";
import type { Answer } from "../gateway/answer.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway/gateway.ts";
import { responses } from "../gateway/responses.ts";
import type { JsonFields } from "../lib/json.ts";
import type { BodyReservation } from "../limits/bodyBudget.ts";
import { errorClass } from "../telemetry/log.ts";
import type { AdmittedHttpRequest } from "./authentication.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { readBody, type BodyText } from "./requestBody.ts";
import { eventStreamResponse, jsonResponse } from "./response.ts";
import { streamBody } from "./streamBody.ts";

/** An endpoint whose requests a provider answers. */
interface Completion<Asked> {
  readonly endpoint: Endpoint;
  check(value: JsonFields, rules: Config["api"]): Asked;
  answer(gateway: Gateway, context: RequestContext, body: CheckedBody<Asked>): Promise<Answer>;
}

const chatCompletion: Completion<ChatRequest> = {
  endpoint: "chat",
  check: checkChatRequest,
  answer: chat,
};

const response: Completion<ResponsesRequest> = {
  endpoint: "responses",
  check: checkResponsesRequest,
  answer: responses,
};

export function postChat(app: App, admitted: AdmittedHttpRequest): Promise<Response> {
  return serve(app, admitted, chatCompletion);
}

export function postResponses(app: App, admitted: AdmittedHttpRequest): Promise<Response> {
  return serve(app, admitted, response);
}

/** Reads the body and lets the gateway answer. On failure the errors plugin ends the request. */
async function serve<Asked extends Pick<ChatRequest, "model" | "stream">>(
  app: App,
  admitted: AdmittedHttpRequest,
  completion: Completion<Asked>,
): Promise<Response> {
  const { request, log, caller, permit, inFlight } = admitted;
  const snapshot = app.gateway.current;
  const { server } = snapshot.config;
  const context: RequestContext = {
    requestId: log.id,
    snapshot,
    caller,
    permit,
    signal: request.signal,
    addLogFields: (fields) => log.addFields(fields),
    logFailure: (error) => log.setError(errorClass(error)),
    onStreamEnd() {
      inFlight.end();
      log.write(200);
    },
  };
  const claim = app.bodies.claim(caller.accountId);
  let beginning: Promise<unknown> | undefined;
  try {
    const body = await readWhole(request, server.maxBodyBytes, claim);
    inFlight.startWaiting();
    const answered = await answer(app.gateway, context, completion, body);
    if (answered.kind === "stream") {
      inFlight.startStreaming();
      ({ beginning } = answered);
      return eventStreamResponse(
        log,
        streamBody(answered, app.gateway.clock, request.signal, server.sseKeepaliveMs),
      );
    }
    inFlight.end();
    return jsonResponse(log, 200, answered.text, { "x-tollgate-cost-rub": answered.costRub });
  } finally {
    // With its answer's beginning a body is let go; only a late stream has none yet.
    if (beginning) void beginning.then(() => claim.release());
    else claim.release();
  }
}

/** Parses and checks the body, and lets the gateway answer it. */
async function answer<Asked extends Pick<ChatRequest, "model" | "stream">>(
  gateway: Gateway,
  context: RequestContext,
  completion: Completion<Asked>,
  body: BodyText,
): Promise<Answer> {
  const { value, object } = parseJsonObject(body);
  const request = completion.check(value, context.snapshot.config.api);
  const { model, stream } = request;
  context.addLogFields({ endpoint: completion.endpoint, model, stream });
  return completion.answer(gateway, context, { request, object, bodyBytes: body.bytes.length });
}

/** A client that goes away while it sends has made a request that is not whole; nobody hears of it but the log. */
async function readWhole(
  request: Request,
  bytesMax: number,
  claim: BodyReservation,
): Promise<BodyText> {
  try {
    return await readBody(request, bytesMax, (bytes) => {
      // There is room as soon as another body of the account is let go, or enough of the others'.
      if (!claim.take(bytes)) throw rateLimitExceeded();
    });
  } catch (error) {
    if (request.signal.aborted && !(error instanceof ApiError)) throw incompleteRequest();
    throw error;
  }
}

// Both routes declare their body for the types and for /openapi.json only. With `parse: "none"` Elysia neither reads a
// body nor checks it: requestBody.ts and src/contract do. The client's own text has to be forwarded, and the first
// problem has to be told in the contract's words.

/** The refusals that no schema of one field can express. */
const refusals = [
  "Refused with a 400 are also: a key that stands twice in any object, a known field in other letters (`Model`),",
  "two different bounds of the answer's tokens, another server's name for a bound or for `n` (`n_predict`),",
  "`background` and `deferred` other than false, `service_tier` other than `auto` and `default`,",
  "a `cache_control` with a `ttl` beyond `5m`, further fields that the operator names, tools of a type that the operator refuses, an announced trailer, and a body over the operator's size limit.",
].join(" ");

/** POST /v1/chat/completions. */
export const createChatCompletion = declaredRoute({
  parse: "none" as const,
  detail: {
    operationId: "createChatCompletion",
    tags: ["completions"],
    summary: "Answers a conversation",
    description: [
      "Checked in this order: the key, its request rate, the body, the model, its token rate, the balance.",
      "Before the request leaves for a provider, the most that it can cost is held; what it did cost is charged",
      "before the end of its answer leaves. Without a bound of its own an answer is bounded by what the account can pay.",
    ].join(" "),
    requestBody: {
      description: [
        "By default fields that are not listed reach the provider as they are, at any depth.",
        "A gateway may be set to refuse them instead (400, `<field> is not supported`); then `n`, `stream_options`",
        "and the other names of `max_tokens` are refused too, and the `content` of a message must be a string.",
        refusals,
      ].join(" "),
      content: {},
    },
    responses: {
      200: answered("The answer.", {
        description: [
          "With `stream`. Each event is a line `data: ` with a ChatChunk in JSON and a blank line;",
          "the last one is `data: [DONE]`. Comment lines (`: keep-alive`) keep a quiet connection open.",
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
    summary: "Passes a request through to a provider's own Responses interface",
    description: [
      "The body reaches the provider as it is, but for the model's name, and the answer comes back byte for byte.",
      "Checked, held and charged as a chat is. Only `max_output_tokens` bounds the answer here.",
    ].join(" "),
    requestBody: {
      description: [
        "Fields that are not listed are the provider's to judge.",
        "Only `request_id` is refused (400): some providers would give the response that id.",
        "Stored objects that the request names must come from responses of this account, or be shared by the operator.",
        refusals,
      ].join(" "),
      content: {},
    },
    responses: {
      200: answered("The provider's answer.", {
        description: [
          "With `stream`: the provider's events. The last one is `response.completed`, `response.incomplete` or",
          "`response.failed`, or an `error` where the provider failed on the way.",
          "Comment lines (`: keep-alive`) keep a quiet connection open.",
        ].join(" "),
      }),
    },
  },
  body: ResponsesRequestBody,
  response: { 200: ResponsesAnswer, ...errorAnswers(400, 401, 402, 404, 429, 502) },
});

/** An answer that costs money, in JSON or as events. */
function answered(
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

/** A short stream, as an example. */
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
