import type { ApiError } from "../contract/errors.ts";
import type { LimitState } from "../limits/rateLimits.ts";
import type { Trace } from "./trace.ts";

const JSON_TYPE = "application/json";
const STREAM_TYPE = "text/event-stream";

/** An answer in JSON; `body` is the text. Ends the request's trace. */
export function jsonResponse(
  trace: Trace,
  status: number,
  body: string,
  extra: Readonly<Record<string, string>> = {},
): Response {
  trace.end(status);
  const headers = { ...commonHeaders(trace), "content-type": JSON_TYPE, ...extra };
  return new Response(body, { status, headers });
}

/** An answer in events. The trace ends with the stream, not here. */
export function eventStreamResponse(trace: Trace, body: ReadableStream<Uint8Array>): Response {
  return new Response(body, {
    headers: { ...commonHeaders(trace), "content-type": STREAM_TYPE, "x-accel-buffering": "no" },
  });
}

/**
 * An answer that says no, with when to come again where that is known: a request of a key whose rate is used up as well
 * would only be refused for that. Ends the request's trace.
 */
export function errorResponse(
  trace: Trace,
  error: ApiError,
  extra: Readonly<Record<string, string>> = {},
): Response {
  const nextMs = error.status === 429 ? (trace.limitStates?.().requests?.nextMs ?? 0) : 0;
  const retryAfterSeconds =
    error.retryAfterSeconds && Math.max(error.retryAfterSeconds, Math.ceil(nextMs / 1000));
  return jsonResponse(trace, error.status, JSON.stringify(error.toBody()), {
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
    ...extra,
  });
}

/** Every answer's headers, built from nothing: none of a provider's ever passes. */
function commonHeaders(trace: Trace): Record<string, string> {
  const headers: Record<string, string> = {
    "x-request-id": trace.id,
    "cache-control": "no-store",
    vary: "authorization",
  };
  const states = trace.limitStates?.();
  if (states?.requests) addLimit(headers, "requests", states.requests);
  if (states?.tokens) addLimit(headers, "tokens", states.tokens);
  return headers;
}

function addLimit(headers: Record<string, string>, of: string, state: LimitState): void {
  headers[`x-ratelimit-limit-${of}`] = String(state.limit);
  headers[`x-ratelimit-remaining-${of}`] = String(state.remaining);
  headers[`x-ratelimit-reset-${of}`] = `${Math.ceil(state.resetMs / 1000)}s`;
}
