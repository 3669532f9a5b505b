import type { App } from "../app.ts";
import { incompleteRequest, rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { ShuttingDown } from "../gateway/gateway.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";

/**
 * Runs work that can read many rows: in steps, in turn with such work of other requests. It ends between two steps when
 * the client disconnects or the gateway stops. Throws ApiError.
 */
export async function runInSteps<T>(
  app: App,
  inFlight: InFlightRequest,
  steps: Generator<unknown, T>,
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

function* whileAskedFor<T>(
  app: App,
  request: Request,
  steps: Generator<unknown, T>,
): Generator<undefined, T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    yield;
    if (request.signal.aborted) throw incompleteRequest();
    if (app.gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
  }
}

/** The query of a request's URL, as it was sent. */
export function queryOf({ url }: Request): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
