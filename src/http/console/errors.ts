import type { ConsoleErrorBody } from "../../contract/operator/consoleState.ts";

/** An error of the console's API. */
export function consoleError(status: number, message: string): Response {
  const body: ConsoleErrorBody = { error: { message } };
  return Response.json(body, {
    status,
    headers: { "cache-control": "no-store", "x-content-type-options": "nosniff" },
  });
}
