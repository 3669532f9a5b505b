import {
  ownFault,
  ReportedFailure,
  UpstreamError,
  upstreamErrorOf,
  type UpstreamExchange,
} from "../providers/upstream.ts";

/** Converts any error to the reason to abort an exchange. */
export function toUpstreamError(error: unknown): UpstreamError {
  return upstreamErrorOf(error) ?? ownFault(error);
}

/** Aborts an exchange whose answer could not be read, and returns the reason. Rethrows an error of our own code. */
export function abortExchange(exchange: UpstreamExchange, error: unknown): UpstreamError {
  const isReported = error instanceof ReportedFailure;
  const failure = isReported ? exchange.reported(error) : upstreamErrorOf(error);
  exchange.abort(failure ?? ownFault(error));
  if (!failure) throw error;
  return failure.withStatus(exchange.status);
}

/**
 * The failure of an attempt whose answer reports a failure. A client can cause it at will, so it does not count for the
 * route's health.
 */
export function reportedFailure(): UpstreamError {
  return new UpstreamError("isolated", "reported failure", { status: 200 });
}

/**
 * The cause of a failure after content; undefined for an error of our own code. A fault of the caller can no longer be
 * answered with 400 then, and the content before it is charged.
 */
export function streamBreakCause(error: unknown): UpstreamError | undefined {
  const isCallers = error instanceof ReportedFailure && error.isOfRequest;
  if (isCallers) return new UpstreamError("excessive", "isolated failure", { cause: error });
  return upstreamErrorOf(error);
}

/**
 * Whether the caller caused the failure: the answer exceeds a limit, or after content the provider reports an error that
 * names the request. The content before it is charged like a disconnect. Other failures are not charged.
 */
export function isCallerFault({ fault }: UpstreamError): boolean {
  return fault === "excessive";
}

/** The reason to abort an exchange after a disconnect. */
export function clientGone(): UpstreamError {
  return new UpstreamError("client", "client disconnected");
}
