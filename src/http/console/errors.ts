import { InvalidValue } from "../../administration/values.ts";
import { ApiError } from "../../contract/errors.ts";
import type { ConsoleErrorBody } from "../../contract/operator/consoleState.ts";
import { toStoreError } from "../../store/open.ts";
import { NotFoundError, StoreError } from "../../store/store.ts";

/** An error of the console's API. `field` is the name of the wrong value in the body. */
export function consoleError(status: number, message: string, field?: string): Response {
  const body: ConsoleErrorBody = { error: field === undefined ? { message } : { message, field } };
  return Response.json(body, {
    status,
    headers: { "cache-control": "no-store", "x-content-type-options": "nosniff" },
  });
}

/**
 * The answer to what a read or a change threw: 400 for a wrong value, 404 for a name or an id that does not exist, 409
 * for a change that the store refuses, and 500 for a failure. The message is that of the command.
 */
export function changeError(error: unknown, database: () => string): Response {
  if (error instanceof InvalidValue) return consoleError(400, error.message, error.field);
  if (error instanceof ApiError) return consoleError(error.status, error.message);
  if (error instanceof NotFoundError) return consoleError(404, error.message);
  if (error instanceof StoreError) return consoleError(409, error.message);
  const failure = toStoreError(database(), error);
  return consoleError(500, failure instanceof Error ? failure.message : String(failure));
}
