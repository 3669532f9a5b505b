import type { ApiError } from "../contract/errors.ts";
import type { LimitState } from "../limits/rateLimits.ts";
import type { RequestLog } from "./requestLog.ts";

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

/**
 * The answer for an error, with `retry-after` where a time is known. That is never sooner than the key's request rate
 * allows. Writes the request's log line.
 */
export function errorResponse(
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

/** The headers of every answer. They are built from nothing, so no header of a provider passes. */
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

function addLimit(headers: Record<string, string>, of: string, state: LimitState): void {
  headers[`x-ratelimit-limit-${of}`] = String(state.limit);
  headers[`x-ratelimit-remaining-${of}`] = String(state.remaining);
  headers[`x-ratelimit-reset-${of}`] = `${Math.ceil(state.resetMs / 1000)}s`;
}
