import { totalmem } from "node:os";

/** One body's part of what all may have in memory. */
export interface BodyReservation {
  /** Counts bytes that have arrived; false, and they are not counted, where the account's bodies are too large together. */
  take(bytes: number): boolean;
  /** Gives all of them back; nothing happens the second time. */
  release(): void;
}

/**
 * How many bytes of clients' bodies are being read, or are held for an answer that has not begun. The limits of a key
 * count requests, and a key without money may have many under way, each with the largest body: of what is free an account
 * gets a share, so that some is left for each of the others, however much it sends.
 */
export interface BodyBudget {
  readonly heldBytes: number;
  claim(accountId: number): BodyReservation;
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

/** So many times what it leaves free is an account's: of what the others leave it has three quarters at most. */
const SHARE_OF_FREE = 3;
/** So much is every account's, whatever the others have, ... */
const ALWAYS_FREE_BYTES = 65_536;
/** ... as long as the accounts with bodies are so few that this makes no more than this part of what all may have. */
const ALWAYS_FREE_PART = 1 / 8;

/** A body that is alone is always taken: its own limit is the config's. */
export function createBodyBudget(bytesMax: number): BodyBudget {
  let heldBytes = 0;
  const accounts = new Map<number, number>();
  const count = (accountId: number, bytes: number): void => {
    const ofAccount = (accounts.get(accountId) ?? 0) + bytes;
    if (ofAccount === 0) accounts.delete(accountId);
    else accounts.set(accountId, ofAccount);
    heldBytes += bytes;
  };
  return {
    get heldBytes() {
      return heldBytes;
    },
    claim(accountId) {
      let own = 0;
      return {
        take(bytes) {
          const ofAccount = (accounts.get(accountId) ?? 0) + bytes;
          const free = bytesMax - heldBytes - bytes;
          const isAlone = heldBytes === own;
          const areFew = accounts.size * ALWAYS_FREE_BYTES < bytesMax * ALWAYS_FREE_PART;
          const share = Math.max(areFew ? ALWAYS_FREE_BYTES : 0, SHARE_OF_FREE * free);
          if (!isAlone && ofAccount > share) return false;
          own += bytes;
          count(accountId, bytes);
          return true;
        },
        release() {
          count(accountId, -own);
          own = 0;
        },
      };
    },
  };
}
