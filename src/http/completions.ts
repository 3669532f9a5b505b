import type { App } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import { refuseWithoutMoney } from "../gateway/admission/admit.ts";
import type { Answer } from "../gateway/answer.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway/gateway.ts";
import type { JsonFields } from "../lib/json.ts";
import { admit, presentedKey } from "./authentication.ts";
import { BodyIntake } from "./bodyIntake.ts";
import { readBody, type BodyText } from "./requestBody.ts";
import { peerOf, type ConnectionServer } from "./clientAddress.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";
import { RequestLog } from "./requestLog.ts";
import {
  checkHost,
  checkPipeline,
  errorResponse,
  streamResponse,
  jsonResponse,
} from "./response.ts";
import { streamBody } from "./streamBody.ts";

/** An endpoint whose requests a provider answers: what its declared route has for this. */
export interface Completion<Checked> {
  readonly path: string;
  readonly endpoint: string;
  check(value: JsonFields, rules: Config["api"]): Checked;
  answer(gateway: Gateway, context: RequestContext, body: CheckedBody<Checked>): Promise<Answer>;
}

/** What every checked request has. */
export interface CheckedRequest {
  readonly model: string;
  /** Undefined if the endpoint has no streams. */
  readonly stream?: boolean;
}

/** Answers a request. It never rejects. */
export async function serve<Checked extends CheckedRequest>(
  app: App,
  completion: Completion<Checked>,
  request: Request,
  server: ConnectionServer | null,
): Promise<Response> {
  const log = new RequestLog(app, request, server, completion);
  try {
    checkPipeline(app, log, () => peerOf(request, server));
    checkHost(request);
    const admitted = admit(app, { request, server, log }, presentedKey(request));
    const inFlight = admitted instanceof Promise ? await admitted : admitted;
    log.startSpan(request, completion.endpoint);
    refuseWithoutMoney(app.gateway, inFlight);
    const intake = new BodyIntake(app, inFlight);
    let beginning: Promise<unknown> | undefined;
    try {
      const { maxBodyBytes, sseKeepaliveMs } = inFlight.snapshot.config.server;
      const body = await readBody(request, maxBodyBytes, intake);
      const mayCheck = intake.ready(body.bytes.length);
      if (mayCheck) await mayCheck;
      inFlight.startWaiting();
      const answering = answer(app.gateway, inFlight, completion, body);
      intake.checked();
      const result = await answering;
      if (result.kind === "json") {
        inFlight.end();
        return jsonResponse(log, 200, result.body, result.headers);
      }
      if (result.kind === "stream") inFlight.startStreaming();
      ({ beginning } = result);
      const sent = streamBody(result, app.gateway.deadlines, request.signal, sseKeepaliveMs);
      return streamResponse(log, result.kind, sent, result.headers);
    } finally {
      // The body is no longer needed once the answer has begun. With an early 200 it begins later.
      if (beginning) void beginning.then(() => intake.release());
      else intake.release();
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
