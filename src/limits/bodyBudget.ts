import { totalmem } from "node:os";

/** The memory that one request body takes from the budget. */
export interface BodyReservation {
  /** Adds bytes that have arrived. Returns false, and adds nothing, if the account's bodies exceed its share. */
  take(bytes: number): boolean;
  /** Returns all bytes to the budget. A second call has no effect. */
  release(): void;
}

/**
 * Limits the bytes of request bodies that are read or kept until their answer begins. Rate limits count requests only, so
 * many large bodies of one account could fill the memory. Each account gets a share of the free bytes.
 */
export interface BodyBudget {
  readonly heldBytes: number;
  claim(accountId: number): BodyReservation;
}

/** A body exists up to three times: as bytes, as text and as parsed values. All bodies together may use half of the memory. */
const MEMORY_PER_BODY_BYTE = 6;

/** The bytes of all request bodies together that this machine or container allows. */
export function bodyBytesMax(): number {
  // Without a container limit Bun 1.4.5 returns the memory of the machine, or a much larger number.
  const limit = process.constrainedMemory();
  const memory = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return Math.floor(memory / MEMORY_PER_BODY_BYTE);
}

/** An account may use three times the bytes that stay free, which is three quarters of what the others leave. */
const SHARE_OF_FREE = 3;
/** Each account may use this much whatever the others use, if few accounts send bodies. */
const ALWAYS_FREE_BYTES = 65_536;
/** Few: all such minimums together are at most this part of the budget. */
const ALWAYS_FREE_PART = 1 / 8;

/** The only body in flight is always accepted: `max_body` limits it. */
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
