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
