import {
  ownFault,
  ReportedFailure,
  UpstreamError,
  upstreamErrorOf,
  type UpstreamExchange,
} from "../providers/upstream.ts";

/** A part of a streamed answer, as text or bytes. */
export type StreamChunk = string | Uint8Array;

/** Sends a chunk to the client. Returns false if the client applies backpressure. */
export type SendChunk = (piece: StreamChunk) => boolean;

/** Moves a stream from a provider to the client. */
export interface Relay {
  /**
   * Undefined if `take` has a chunk now. Else a promise that resolves when it has one, or at the end. Plain events that
   * arrive meanwhile go to `send` directly, until it returns false.
   */
  ready(send: SendChunk): Promise<void> | undefined;
  /** The next chunk, once ready; undefined at the end. Throws if the connection to the client has to be closed. */
  take(): StreamChunk | undefined;
  /** The client stopped and started reading. Calls may be nested. */
  pause(): void;
  resume(): void;
}

export type Answer = WholeAnswer | StreamedAnswer;

/** JSON, as text or in UTF-8. */
export interface WholeAnswer {
  readonly kind: "json";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** The header with the charge of an answer in JSON, in roubles. */
export const COST_HEADER = "x-tollgate-cost-rub";
/** The header with the id of the model that answered, where another one may have. */
const MODEL_HEADER = "x-tollgate-model";

/** Names the model that answered, in characters that a header may have. */
export function modelHeader(model: string): Readonly<Record<string, string>> {
  return { [MODEL_HEADER]: encodeURI(model) };
}

/** An answer whose body is sent as it comes. */
export interface StreamedAnswer {
  /** `lateJson`: one JSON document. Its 200 is sent before the document exists. */
  readonly kind: "stream" | "lateJson";
  readonly headers: Readonly<Record<string, string>>;
  readonly relay: Relay;
  /** Set if the 200 was sent before any content. Resolves when content has arrived or cannot arrive any more. */
  readonly beginning: Promise<unknown> | undefined;
}

export function joinChunks(before: StreamChunk | undefined, after: StreamChunk): StreamChunk {
  if (before === undefined) return after;
  if (typeof before === "string" && typeof after === "string") return before + after;
  return Buffer.concat([bytesOf(before), bytesOf(after)]);
}

function bytesOf(chunk: StreamChunk): Uint8Array {
  return typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}

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
