import { totalmem } from "node:os";

/** A body exists up to three times: as bytes, as text and as parsed values. All bodies together may use half of the memory. */
const MEMORY_PER_BODY_BYTE = 6;

/** The bytes of all request bodies together that this machine or container allows. */
export function bodyBytesMax(): number {
  return Math.floor(memoryBytes() / MEMORY_PER_BODY_BYTE);
}

/** The memory of this machine or container. */
export function memoryBytes(): number {
  // Without a container limit Bun 1.4.5 returns the memory of the machine, or a much larger number.
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** An account may use three times the bytes that stay free, which is three quarters of what the others leave. */
const SHARE_OF_FREE = 3;
/** Each account may use this much, whatever the others use, as long as few accounts send bodies. */
const ALWAYS_FREE_BYTES = 65_536;
/** The part of the budget that all such minimums together may take. */
const ALWAYS_FREE_PART = 1 / 8;

export function createBodyBudget(bytesMax: number): BodyBudget {
  return new BodyBudget(bytesMax);
}

/**
 * Limits the bytes of request bodies that are read or kept until their answer begins. Rate limits count requests only, so
 * many large bodies of one account could fill the memory. Each account gets a share of the free bytes. The only body in
 * flight is always accepted: `max_body` limits it.
 */
export class BodyBudget {
  readonly #bytesMax: number;
  readonly #accounts = new Map<number, number>();
  #heldBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  claim(accountId: number): BodyReservation {
    return new BodyReservation(this, accountId);
  }

  /** Whether a body of the account, which has `own` bytes so far, may have this many more. */
  hasRoom(accountId: number, own: number, bytes: number): boolean {
    if (this.#heldBytes === own) return true;
    const ofAccount = (this.#accounts.get(accountId) ?? 0) + bytes;
    const free = this.#bytesMax - this.#heldBytes - bytes;
    const areFew = this.#accounts.size * ALWAYS_FREE_BYTES < this.#bytesMax * ALWAYS_FREE_PART;
    return ofAccount <= Math.max(areFew ? ALWAYS_FREE_BYTES : 0, SHARE_OF_FREE * free);
  }

  /** Adds bytes of the account, or removes them if negative. */
  count(accountId: number, bytes: number): void {
    const ofAccount = (this.#accounts.get(accountId) ?? 0) + bytes;
    if (ofAccount === 0) this.#accounts.delete(accountId);
    else this.#accounts.set(accountId, ofAccount);
    this.#heldBytes += bytes;
  }
}

/** The memory that one request body takes from the budget. */
export class BodyReservation {
  readonly #budget: BodyBudget;
  readonly #accountId: number;
  #own = 0;

  constructor(budget: BodyBudget, accountId: number) {
    this.#budget = budget;
    this.#accountId = accountId;
  }

  /** Adds bytes that have arrived. Returns false, and adds nothing, if the account's bodies exceed its share. */
  take(bytes: number): boolean {
    if (!this.#budget.hasRoom(this.#accountId, this.#own, bytes)) return false;
    this.#own += bytes;
    this.#budget.count(this.#accountId, bytes);
    return true;
  }

  /** Returns all bytes to the budget. A second call has no effect. */
  release(): void {
    this.#budget.count(this.#accountId, -this.#own);
    this.#own = 0;
  }
}
