import type { Duplex } from "node:stream";

/** What a connection uses of its socket. A socket of Bun is one as it is. */
export interface Wire {
  /** The bytes that it took: fewer than it got, or -1, if it is full or closed. */
  write(data: string | Uint8Array): number;
  pause(): unknown;
  resume(): unknown;
  /** At once. */
  terminate(): void;
  /** In order. */
  close(): void;
}

/** What the user of a wire hears. */
export interface WireEvents {
  onData(bytes: Buffer): void;
  /** It can take more bytes. */
  onDrain(): void;
  /** The other side ended it in order. */
  onEnd(): void;
  onClose(error: Error | undefined): void;
}

/** A stream takes pieces of this size at most, because it keeps each piece until it is sent. */
const PIECE_BYTES_MAX = 65_536;

/** A tunnel as the wire of a connection. */
export function wireOf(tunnel: Duplex, events: WireEvents): Wire {
  let failure: Error | undefined;
  tunnel.on("data", (bytes: Buffer) => events.onData(bytes));
  tunnel.on("drain", () => events.onDrain());
  tunnel.once("end", () => events.onEnd());
  tunnel.on("error", (error) => {
    failure = error;
  });
  tunnel.once("close", () => events.onClose(failure));
  const end = (): void => void tunnel.destroy();
  return {
    write(data) {
      if (tunnel.destroyed) return -1;
      const bytes = typeof data === "string" ? Buffer.from(data) : data;
      let taken = 0;
      while (taken < bytes.length && !tunnel.writableNeedDrain) {
        const piece = bytes.subarray(taken, taken + PIECE_BYTES_MAX);
        tunnel.write(piece);
        taken += piece.length;
      }
      return taken;
    },
    pause: () => tunnel.pause(),
    resume: () => tunnel.resume(),
    terminate: end,
    close: end,
  };
}
