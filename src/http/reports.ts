import type { App } from "../app.ts";
import { incompleteRequest, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import type { Pause } from "../store/store.ts";
import type { InFlightRequest } from "./authentication.ts";

/**
 * Runs work that can read many rows, in turn with such work of other requests. It ends at a pause when the client disconnects
 * or the gateway stops. Rejects with ApiError.
 */
export async function runFairly<T>(
  app: App,
  inFlight: InFlightRequest,
  work: (pause: Pause) => Promise<T>,
): Promise<T> {
  const { caller, request } = inFlight;
  inFlight.startWaiting();
  const result = app.fairQueue.run(caller.accountId, (endTurn) =>
    work(async () => {
      await endTurn();
      if (request.signal.aborted) throw incompleteRequest();
      if (app.gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
    }),
  );
  // Too much of this account is running.
  if (result === undefined) throw rateLimitExceeded();
  return await result;
}

/** The query of a request's URL, as it was sent. */
export function queryOf({ url }: Request): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
