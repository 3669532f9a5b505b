import type { Ending } from "../billing/meter.ts";
import { ApiError, allProvidersUnavailable, serviceUnavailable } from "../contract/errors.ts";
import type { EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import {
  dispatch,
  type Attempted,
  type AttemptEnded,
  type Dispatched,
} from "../routing/dispatch.ts";
import type { Candidate } from "../routing/order.ts";
import type { Admitted } from "./admit.ts";
import type { Piece } from "./answer.ts";
import { logAttempt } from "./attemptLog.ts";
import { conclude } from "./conclude.ts";
import type { Gateway, Visit } from "./gateway.ts";

/** One admitted request and the routes that can serve it: what both endpoints have in common. */
export interface Journey {
  readonly gateway: Gateway;
  readonly visit: Visit;
  readonly admitted: Admitted;
  readonly candidates: readonly Candidate[];
  /** The request in the words of this route's provider. */
  encode(candidate: Candidate): EncodedRequest;
  /** The failure of an attempt that is the caller's own, as the client sees it: no other route is tried. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** How a stream ends that failed after its 200 had left, and before any content. */
  failurePiece(error: ApiError): Piece;
}

/** Sends the request to a route; the exchange is among the gateway's traffic until it is taken out. */
export function sendTo(journey: Journey, candidate: Candidate, stream: boolean): UpstreamExchange {
  const { requestId } = journey.visit;
  const exchange = candidate.provider.upstream.send({
    ...journey.encode(candidate),
    stream,
    requestId,
  });
  journey.gateway.traffic.exchanges.add(exchange);
  // A request that is not in the books costs nobody anything, so it must not cost the operator either.
  journey.admitted.meter.opened.catch(() => exchange.abort(new UpstreamError("gateway", "store")));
  return exchange;
}

/** Lets the routes try in their order; see `dispatch`. */
export function tryRoutes<Answer>(
  journey: Journey,
  isAbandoned: () => boolean,
  attempt: (candidate: Candidate, ended: AttemptEnded) => Promise<Answer>,
): Promise<Dispatched<Answer>> {
  const { gateway, admitted } = journey;
  return dispatch({
    candidates: journey.candidates,
    health: gateway.health,
    retryBudget: gateway.retryBudget,
    clock: gateway.clock,
    random: gateway.random,
    underWay: () => gateway.traffic.exchanges.size,
    attempt,
    attempted: attemptRecorder(journey),
    callerFault: (error) => journey.callerFault(error),
    isAbandoned: () => gateway.traffic.isCut || admitted.meter.couldNotOpen || isAbandoned(),
  });
}

/** A function of its own, for a stream keeps what it returns (of closures: gateway.ts). */
function attemptRecorder({ gateway, visit, admitted }: Journey): Attempted {
  return (record, candidate, failure) => {
    admitted.meter.attempted(record);
    logAttempt(gateway, visit, candidate, record, failure);
  };
}

/** Ends a request that got no answer, and says what its client is told. */
export async function concludeFailure(
  journey: Journey,
  error: unknown,
  ending: Ending,
): Promise<ApiError> {
  try {
    await conclude(journey.visit, journey.admitted, ending);
  } catch (unwritten) {
    // `conclude` throws nothing else.
    return unwritten as ApiError;
  }
  if (error instanceof ApiError) return error;
  if (journey.gateway.traffic.isCut) return serviceUnavailable(error);
  return error instanceof UpstreamError ? allProvidersUnavailable() : serviceUnavailable(error);
}
