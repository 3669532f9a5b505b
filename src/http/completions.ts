import type { App } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { checkChatRequest, type ChatRequest } from "../contract/chat/chatRequest.ts";
import { ApiError, incompleteRequest, rateLimitExceeded } from "../contract/errors.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import {
  checkResponsesRequest,
  type ResponsesRequest,
} from "../contract/responses/responsesRequest.ts";
import { chat } from "../gateway/chat.ts";
import type { Answer } from "../gateway/answer.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway/gateway.ts";
import { responses } from "../gateway/responses.ts";
import type { JsonFields } from "../lib/json.ts";
import type { BodyReservation } from "../limits/bodyBudget.ts";
import { errorClass } from "../telemetry/log.ts";
import type { AdmittedHttpRequest } from "./plugins/authentication.ts";
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
