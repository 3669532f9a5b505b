import { Elysia, ValidationError } from "elysia";
import type { App } from "../app.ts";
import { ApiError, invalidRequest, notFound, serviceUnavailable } from "../contract/errors.ts";
import { validationMessage } from "../contract/validationMessage.ts";
import { errorClass } from "../telemetry/log.ts";
import type { RequestLog, RequestLogOf } from "./requestLog.ts";
import { jsonResponse } from "./response.ts";

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
