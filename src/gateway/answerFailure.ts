import {
  ownFault,
  ReportedFailure,
  UpstreamError,
  upstreamErrorOf,
  type UpstreamExchange,
} from "../providers/upstream.ts";

/** Whatever broke an answer off, as the reason to end its exchange. */
export function toUpstreamError(error: unknown): UpstreamError {
  return upstreamErrorOf(error) ?? ownFault(error);
}

/** Ends the exchange whose answer could not be read, and returns why. Throws a fault of our own as it is. */
export function abortExchange(exchange: UpstreamExchange, error: unknown): UpstreamError {
  const isReported = error instanceof ReportedFailure;
  const failure = isReported ? exchange.reported(error) : upstreamErrorOf(error);
  exchange.abort(failure ?? ownFault(error));
  if (!failure) throw error;
  return failure.withStatus(exchange.status);
}

/**
 * What becomes of an attempt whose answer says itself that it failed. A client can bring that about as often as it
 * likes, so nobody's health hears of it.
 */
export function reportedFailure(): UpstreamError {
  return new UpstreamError("misfire", "reported failure", { status: 200 });
}

/**
 * What broke an answer off behind content; undefined: a fault of our own. What is wrong with the request can no longer
 * be told to the caller then, and what it got before is paid for.
 */
export function streamBreakCause(error: unknown): UpstreamError | undefined {
  const isCallers = error instanceof ReportedFailure && error.isOfRequest;
  if (isCallers) return new UpstreamError("excess", "misfire", { cause: error });
  return upstreamErrorOf(error);
}

/**
 * Whether the caller chose what ended the answer early: an answer in excess, or an error after content that the provider
 * reports about the request. The client pays for what came before, as one that left. Other failures cost nothing.
 */
export function isCallerFault({ fault }: UpstreamError): boolean {
  return fault === "excess";
}

/** Why an exchange is ended whose client went away. */
export function clientGone(): UpstreamError {
  return new UpstreamError("client", "client gone");
}
