import type { App } from "../app.ts";
import { incompleteRequest, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import { stepByStep, type Steps } from "../store/store.ts";
import type { InFlightRequest } from "./authentication.ts";

/**
 * Runs work that can read many rows: in steps, in turn with such work of other requests. It ends between two steps when
 * the client disconnects or the gateway stops. Throws ApiError.
 */
export async function runInSteps<T>(
  app: App,
  inFlight: InFlightRequest,
  steps: Steps<T>,
): Promise<T> {
  inFlight.startWaiting();
  const result = app.fairQueue.run(
    inFlight.caller.accountId,
    whileAskedFor(app, inFlight.request, steps),
  );
  // Too much of this account is running.
  if (result === undefined) throw rateLimitExceeded();
  return await result;
}

/** The same steps. They end where they pause or wait when nobody needs the result any more. */
function whileAskedFor<T>(app: App, request: Request, steps: Steps<T>): Steps<T> {
  return stepByStep(steps, function* (awaited) {
    const value = yield awaited;
    if (request.signal.aborted) throw incompleteRequest();
    if (app.gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
    return value;
  });
}

/** The query of a request's URL, as it was sent. */
export function queryOf({ url }: Request): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
