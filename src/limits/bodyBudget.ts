import { totalmem } from "node:os";

/** One body's part of what all may have in memory. */
export interface BodyClaim {
  /** Counts bytes that have arrived; false, and they are not counted, where all bodies together are too large. */
  take(bytes: number): boolean;
  /** Gives all of them back; nothing happens the second time. */
  release(): void;
}

/**
 * How many bytes of clients' bodies are being read, or are held for an answer that has not begun. The limits of a key
 * count requests, and a key without money may have many under way, each with the largest body.
 */
export interface BodyBudget {
  readonly heldBytes: number;
  claim(): BodyClaim;
}

/** A body is there up to three times for a while, as bytes, as text and as values: all of them take half of the memory. */
const MEMORY_PER_BODY_BYTE = 6;

/** What the bodies of all requests may have together on this machine, in this container. */
export function bodyBytesMax(): number {
  // Without a limit Bun 1.4.5 gives the machine's own memory, or a number far above it.
  const limit = process.constrainedMemory();
  const memory = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return Math.floor(memory / MEMORY_PER_BODY_BYTE);
}

/** A body that is alone is always taken: its own limit is the config's. */
export function createBodyBudget(bytesMax: number): BodyBudget {
  let heldBytes = 0;
  return {
    get heldBytes() {
      return heldBytes;
    },
    claim() {
      let own = 0;
      return {
        take(bytes) {
          if (heldBytes > own && heldBytes + bytes > bytesMax) return false;
          own += bytes;
          heldBytes += bytes;
          return true;
        },
        release() {
          heldBytes -= own;
          own = 0;
        },
      };
    },
  };
}
