/** A piece of an answer on its way to the client. */
export type StreamChunk = string | Uint8Array;

/** Sends a piece to the client. False: the client does not take it yet. */
export type SendChunk = (piece: StreamChunk) => boolean;

/** A stream on its way from a provider to the client. */
export interface Relay {
  /**
   * Resolves when there is something to take. What comes meanwhile and is plain goes to `send` at once, as long as
   * that says that the client keeps up.
   */
  ready(send: SendChunk): Promise<void>;
  /** The next piece, once ready; undefined at the end. Throws when the client is to see a broken connection. */
  take(): StreamChunk | undefined;
  /** The client does not take what it was given, until it resumes; there may be a pause within a pause. */
  pauses(): void;
  resumes(): void;
}

/** What a client is answered with 200: a whole JSON text with its cost, or a stream. */
export type Answer =
  | { readonly kind: "json"; readonly text: string; readonly costRub: string }
  | StreamedAnswer;

export interface StreamedAnswer {
  readonly kind: "stream";
  readonly relay: Relay;
  /** Only where the 200 left before any content: resolves when content has come, or when it is certain that none will. */
  readonly beginning: Promise<unknown> | undefined;
}

/** Two pieces as one. */
export function joined(before: StreamChunk | undefined, after: StreamChunk): StreamChunk {
  if (before === undefined) return after;
  if (typeof before === "string" && typeof after === "string") return before + after;
  return Buffer.concat([bytesOf(before), bytesOf(after)]);
}

function bytesOf(piece: StreamChunk): Uint8Array {
  return typeof piece === "string" ? Buffer.from(piece) : piece;
}
