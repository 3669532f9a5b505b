import { Elysia, ValidationError } from "elysia";
import type { LimitState } from "../limits/rateLimits.ts";
import type { RequestLog, RequestLogOf } from "./requestLog.ts";
import type { App } from "../app.ts";
import { ApiError, invalidRequest, notFound, serviceUnavailable } from "../contract/errors.ts";
import { validationMessage } from "../contract/validationMessage.ts";
import { errorClass } from "../telemetry/log.ts";

const JSON_TYPE = "application/json";
const STREAM_TYPE = "text/event-stream";

/** An answer in JSON; `body` is its text. Writes the request's log line. */
export function jsonResponse(
  log: RequestLog,
  status: number,
  body: string,
  extra: Readonly<Record<string, string>> = {},
): Response {
  log.write(status);
  const headers = { ...commonHeaders(log), "content-type": JSON_TYPE, ...extra };
  return new Response(body, { status, headers });
}

/** A stream of events. The log line is written when the stream ends. */
export function eventStreamResponse(log: RequestLog, body: ReadableStream<Uint8Array>): Response {
  return new Response(body, {
    headers: { ...commonHeaders(log), "content-type": STREAM_TYPE, "x-accel-buffering": "no" },
  });
}

/** The headers of every answer. No header of a provider is copied. */
function commonHeaders(log: RequestLog): Record<string, string> {
  const headers: Record<string, string> = {
    "x-request-id": log.id,
    "cache-control": "no-store",
    vary: "authorization",
  };
  const states = log.limitStates?.();
  if (states?.requests) addLimit(headers, "requests", states.requests);
  if (states?.tokens) addLimit(headers, "tokens", states.tokens);
  return headers;
}

function addLimit(
  headers: Record<string, string>,
  unit: "requests" | "tokens",
  state: LimitState,
): void {
  headers[`x-ratelimit-limit-${unit}`] = String(state.limit);
  headers[`x-ratelimit-remaining-${unit}`] = String(state.remaining);
  headers[`x-ratelimit-reset-${unit}`] = `${Math.ceil(state.resetMs / 1000)}s`;
}

/** A Host with such a character would move the path: Bun puts the Host before the path in a request's URL. */
const FOREIGN_HOST = /[/?#@\\\s]/;

/** The plugin that answers each error with the contract's error body, ends the request and writes its log line. */
export function errors(app: App, logOf: RequestLogOf) {
  return new Elysia({ name: "errors" })
    .onRequest(({ request }) => {
      const isForeign = FOREIGN_HOST.test(request.headers.get("host") ?? "");
      return isForeign
        ? errorResponse(logOf(request), invalidRequest("invalid host header"))
        : undefined;
    })
    .onError({ as: "global" }, ({ request, error, code }) => {
      const log = logOf(request);
      const apiError = code === "NOT_FOUND" ? notFound() : apiErrorOf(error);
      if (apiError.cause !== undefined) log.setError(errorClass(apiError.cause));
      log.inFlight?.end();
      return errorResponse(log, apiError, app.isDraining ? { connection: "close" } : {});
    });
}

/** Converts a thrown value. A value that does not match the schema of its route is a 400. */
function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof ValidationError)) return serviceUnavailable(error);
  const { schema } = error.validator as {
    readonly schema: Parameters<typeof validationMessage>[0];
  };
  return invalidRequest(validationMessage(schema, error.value) ?? `${error.type} is not valid`);
}

/** Writes the log line. A `retry-after` is never earlier than the next request that the key's rate allows. */
function errorResponse(
  log: RequestLog,
  error: ApiError,
  extra: Readonly<Record<string, string>> = {},
): Response {
  const nextMs = error.status === 429 ? (log.limitStates?.().requests?.nextMs ?? 0) : 0;
  const retryAfterSeconds =
    error.retryAfterSeconds && Math.max(error.retryAfterSeconds, Math.ceil(nextMs / 1000));
  return jsonResponse(log, error.status, JSON.stringify(error.toBody()), {
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
    ...extra,
  });
}
