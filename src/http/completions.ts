import type { App } from "../app.ts";
import { refuseWithoutMoney } from "../gateway/admission/admit.ts";
import type { Answer } from "../gateway/answer.ts";
import type { RequestScope } from "../gateway/requestScope.ts";
import { AdmissionTurns } from "./admissionTurns.ts";
import { admit, presentedKey } from "./authentication.ts";
import type { ConnectionServer } from "./clientAddress.ts";
import { BodyIntake, readBody } from "./requestBody.ts";
import { RequestLog } from "./requestLog.ts";
import { checkConnection, errorResponse, streamResponse, jsonResponse } from "./response.ts";
import { streamBody } from "./streamBody.ts";

/** An endpoint that a provider answers: its declared route with the function that answers. */
export interface Completion {
  readonly path: string;
  readonly endpoint: string;
  /** Checks the body and answers it. Rejects with ApiError. */
  answer(scope: RequestScope, body: Uint8Array): Promise<Answer>;
}

const turns = new AdmissionTurns();

/** Answers a request. It never rejects. */
export async function serve(
  app: App,
  completion: Completion,
  request: Request,
  server: ConnectionServer | null,
): Promise<Response> {
  const log = new RequestLog(app, request, server, completion);
  try {
    checkConnection(app, log, request, server);
    const admitted = admit(app, { request, server, log }, presentedKey(request));
    const inFlight = admitted instanceof Promise ? await admitted : admitted;
    log.startSpan(request, completion.endpoint);
    refuseWithoutMoney(inFlight);
    const mayGoOn = turns.enter();
    if (mayGoOn) await mayGoOn;
    const intake = new BodyIntake(app, inFlight);
    let beginning: Promise<unknown> | undefined;
    try {
      const { maxBodyBytes, sseKeepaliveMs } = inFlight.snapshot.config.server;
      const body = await readBody(request, maxBodyBytes, intake);
      inFlight.startWaiting();
      const result = await completion.answer(inFlight, body);
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
