import {
  ownFault,
  ReportedFailure,
  UpstreamError,
  upstreamErrorOf,
  type UpstreamExchange,
} from "../providers/upstream.ts";

/** Whatever broke an answer off, as the reason to end its exchange. */
export function readFailure(error: unknown): UpstreamError {
  return upstreamErrorOf(error) ?? ownFault(error);
}

/** Ends the exchange whose answer could not be read, and returns why. Throws a fault of our own as it is. */
export function breakOff(exchange: UpstreamExchange, error: unknown): UpstreamError {
  const isCallers = error instanceof ReportedFailure && error.fault === "caller";
  const failure = isCallers ? exchange.callersFault(error) : upstreamErrorOf(error);
  exchange.abort(failure ?? ownFault(error));
  if (!failure) throw error;
  return failure.withStatus(exchange.status);
}

/**
 * What becomes of an attempt whose answer says itself that it failed. A client can bring that about as often as it
 * likes, so nobody's health hears of it.
 */
export function reportedFailure(): UpstreamError {
  return new UpstreamError("misfire", "reported failure");
}

/**
 * Whether the caller chose what broke an answer off: what the client got of it before is paid for. An event without an
 * end is not among it: it may as well be a provider's that never ends a line, and nothing tells the two apart. Neither
 * is a failure that the provider reports, for which it charges nothing either.
 */
export function isCallersDoing({ fault, outcome }: UpstreamError): boolean {
  return fault === "misfire" && outcome === "misfire";
}

/** Why an exchange is ended whose client went away. */
export function clientGone(): UpstreamError {
  return new UpstreamError("client", "client gone");
}
