import { Elysia, ValidationError } from "elysia";
import type { TokenBucket } from "../limits/tokenBucket.ts";
import type { Cors, RequestLog, RequestLogOf } from "./requestLog.ts";
import type { App } from "../app.ts";
import {
  ApiError,
  invalidRequest,
  notFound,
  rateLimitExceeded,
  serviceUnavailable,
  SOON_MS,
  withRetryAfter,
} from "../contract/errors.ts";
import { peerOf, type ConnectionServer } from "./clientAddress.ts";
import { messagesErrorBody } from "../contract/messages/messagesAnswer.ts";
import { validationMessage } from "../contract/validationMessage.ts";
import { errorClass } from "../telemetry/log.ts";

type HeaderFields = Record<string, string>;

/** An answer in JSON; `body` is its text, or that in UTF-8. Writes the request's log line. */
export function jsonResponse(
  log: RequestLog,
  status: number,
  body: string | Uint8Array,
  extra?: Readonly<HeaderFields>,
): Response {
  log.write(status);
  const headers = commonHeaders(log);
  headers["content-type"] = "application/json";
  if (extra) Object.assign(headers, extra);
  return new Response(body, { status, headers });
}

/** An answer without a body: 204. Writes the request's log line. */
export function emptyResponse(log: RequestLog, extra: Readonly<HeaderFields>): Response {
  log.write(204);
  return new Response(null, { status: 204, headers: { ...commonHeaders(log), ...extra } });
}

/** The media type of a body that is sent in pieces. */
const STREAM_TYPES = { stream: "text/event-stream", lateJson: "application/json" } as const;

/** A body that is sent in pieces. The log line is written at its end. */
export function streamResponse(
  log: RequestLog,
  kind: keyof typeof STREAM_TYPES,
  body: ReadableStream<Uint8Array>,
  extra: Readonly<HeaderFields>,
): Response {
  const headers = commonHeaders(log);
  headers["content-type"] = STREAM_TYPES[kind];
  headers["x-accel-buffering"] = "no";
  Object.assign(headers, extra);
  return new Response(body, { headers });
}

const VARY = "authorization, x-api-key";

/** The headers that a page may read beside the content type. */
const EXPOSED_HEADERS = [
  "x-request-id",
  "request-id",
  "retry-after",
  "x-tollgate-cost-rub",
  "x-tollgate-model",
  "x-tollgate-estimated",
  ...["requests", "tokens"].flatMap((unit) =>
    ["limit", "remaining", "reset"].map((value) => `x-ratelimit-${value}-${unit}`),
  ),
].join(", ");

/** The headers of every answer. No header of a provider is copied. */
function commonHeaders(log: RequestLog): HeaderFields {
  const headers: HeaderFields = {
    "x-request-id": log.id,
    "cache-control": "no-store",
    vary: VARY,
  };
  if (log.endsConnection) headers["connection"] = "close";
  // Anthropic's clients read the id from this header.
  if (log.form === "anthropic") headers["request-id"] = log.id;
  if (log.cors) addCors(headers, log.cors);
  const { limits } = log;
  if (limits?.requests) addLimit(headers, "requests", limits.requests, log.nowMs());
  if (limits?.tokens) addLimit(headers, "tokens", limits.tokens, log.nowMs());
  return headers;
}

/** Credentials are never allowed: the key is in a header of its own. */
function addCors(headers: HeaderFields, { allowedOrigin }: Cors): void {
  headers["vary"] = `${VARY}, origin`;
  if (allowedOrigin === undefined) return;
  headers["access-control-allow-origin"] = allowedOrigin;
  headers["access-control-expose-headers"] = EXPOSED_HEADERS;
}

function addLimit(
  headers: HeaderFields,
  unit: "requests" | "tokens",
  bucket: TokenBucket,
  nowMs: number,
): void {
  headers[`x-ratelimit-limit-${unit}`] = String(Math.floor(bucket.perMinute));
  headers[`x-ratelimit-remaining-${unit}`] = String(bucket.remaining(nowMs));
  headers[`x-ratelimit-reset-${unit}`] = `${Math.ceil(bucket.resetMs(nowMs) / 1000)}s`;
}

/** A Host with such a character would move the path: Bun puts the Host before the path in a request's URL. */
const FOREIGN_HOST = /[/?#@\\\s]/;

/**
 * Checks the connection of a request before anything else of it. Throws ApiError: 429, which ends the connection, if it has too
 * many answers in this turn of the event loop, and 400 for its Host.
 */
export function checkConnection(
  app: App,
  log: RequestLog,
  request: Request,
  server: ConnectionServer | null,
): void {
  if (!app.pipelines.admit(() => peerOf(request, server))) {
    log.endConnection();
    throw rateLimitExceeded();
  }
  if (FOREIGN_HOST.test(request.headers.get("host") ?? ""))
    throw invalidRequest("invalid host header");
}

/** The plugin that checks the connection and answers each error, for the requests that Elysia serves. */
export function errors(app: App, logOf: RequestLogOf, server: () => ConnectionServer | null) {
  return new Elysia({ name: "errors" })
    .onRequest(({ request }) => checkConnection(app, logOf(request), request, server()))
    .onError({ as: "global" }, ({ request, error, code }) =>
      errorResponse(app, logOf(request), code === "NOT_FOUND" ? notFound() : error),
    );
}

/**
 * Answers any thrown value with the error body of the request's form, ends the request and writes its log line. A `retry-after` is
 * never earlier than the next request that the key's rate allows. While the gateway stops, each 502 has one: another gateway, or
 * this one after a restart, may answer soon.
 */
export function errorResponse(app: App, log: RequestLog, thrown: unknown): Response {
  const thrownError = apiErrorOf(thrown);
  const isStopping = app.phase !== "serving" && thrownError.status === 502;
  const error = isStopping ? withRetryAfter(thrownError, SOON_MS) : thrownError;
  if (error.cause !== undefined) log.setError(errorClass(error.cause));
  log.inFlight?.end();
  const extra: HeaderFields = {};
  if (error.retryAfterSeconds !== undefined) {
    const nextMs = error.status === 429 ? (log.limits?.requests?.nextMs(log.nowMs()) ?? 0) : 0;
    extra["retry-after"] = String(Math.max(error.retryAfterSeconds, Math.ceil(nextMs / 1000)));
  }
  const body = log.form === "anthropic" ? messagesErrorBody(error, log.id) : error.toBody();
  return jsonResponse(log, error.status, JSON.stringify(body), extra);
}

/** Converts a thrown value. A value that does not match the schema of its route is a 400. */
function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof ValidationError)) return serviceUnavailable(error);
  return invalidRequest(schemaProblem(error));
}

/** The first difference between a value and the schema of its route. */
export function schemaProblem(error: ValidationError): string {
  const { schema } = error.validator as {
    readonly schema: Parameters<typeof validationMessage>[0];
  };
  return validationMessage(schema, error.value) ?? `${error.type} is not valid`;
}
