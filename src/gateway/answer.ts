/** A part of a streamed answer, as text or bytes. */
export type StreamChunk = string | Uint8Array;

/** Sends a chunk to the client. Returns false if the client applies backpressure. */
export type SendChunk = (piece: StreamChunk) => boolean;

/** Moves a stream from a provider to the client. */
export interface Relay {
  /**
   * Resolves when `take` has a chunk, or at the end. Plain events that arrive meanwhile go to `send` directly, until it
   * returns false.
   */
  ready(send: SendChunk): Promise<void>;
  /** The next chunk, once ready; undefined at the end. Throws if the connection to the client has to be closed. */
  take(): StreamChunk | undefined;
  /** The client stopped and started reading. Calls may be nested. */
  pause(): void;
  resume(): void;
}

/** An answer with status 200: a JSON text with its cost, or a stream. */
export type Answer =
  | { readonly kind: "json"; readonly text: string; readonly costRub: string }
  | StreamedAnswer;

export interface StreamedAnswer {
  readonly kind: "stream";
  readonly relay: Relay;
  /** Set if the 200 was sent before any content. Resolves when content has arrived or cannot arrive any more. */
  readonly beginning: Promise<unknown> | undefined;
}

/** Concatenates two chunks. */
export function joinChunks(before: StreamChunk | undefined, after: StreamChunk): StreamChunk {
  if (before === undefined) return after;
  if (typeof before === "string" && typeof after === "string") return before + after;
  return Buffer.concat([bytesOf(before), bytesOf(after)]);
}

function bytesOf(chunk: StreamChunk): Uint8Array {
  return typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}
