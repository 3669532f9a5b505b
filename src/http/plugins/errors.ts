import { Elysia, ValidationError } from "elysia";
import type { App } from "../../app.ts";
import { ApiError, invalidRequest, notFound, serviceUnavailable } from "../../contract/errors.ts";
import { validationMessage } from "../../contract/validationMessage.ts";
import { errorClass } from "../../telemetry/log.ts";
import { errorResponse } from "../response.ts";
import type { RequestLogOf } from "./requestId.ts";

/** A Host with such a character moves the path: Bun puts the Host before the path in the URL of a request. */
const FOREIGN_HOST = /[/?#@\\\s]/;

/** Answers each error with the contract's error body, ends the request and writes its log line. */
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
      const shown = code === "NOT_FOUND" ? notFound() : apiErrorOf(error);
      if (shown.cause !== undefined) log.setError(errorClass(shown.cause));
      log.inFlight?.end();
      return errorResponse(log, shown, app.isDraining ? { connection: "close" } : {});
    });
}

/** What the client is told. A value that does not fit the schema of its route is the client's fault. */
function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof ValidationError)) return serviceUnavailable(error);
  const { schema } = error.validator as {
    readonly schema: Parameters<typeof validationMessage>[0];
  };
  return invalidRequest(validationMessage(schema, error.value) ?? `${error.type} is not valid`);
}
