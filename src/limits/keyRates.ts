import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { OwnCell, TokenBucket, type BucketCell, type RateLimitResult } from "./tokenBucket.ts";

/** The limits in force for one key; 0 means none. */
export interface KeyLimits {
  requestsPerMinute: number;
  tokensPerMinute: number;
  concurrentRequests: number;
}

/** The token buckets of one key; undefined without a limit. */
export interface KeyBuckets {
  readonly requests: TokenBucket | undefined;
  readonly tokens: TokenBucket | undefined;
}

/** Counts requests at once. */
export interface SlotCounter {
  /** Of all processes that share it. */
  readonly count: number;
  /** Adds one, unless the count has reached `most`. 0: no limit. Returns false then. */
  take(most: number): boolean;
  release(): void;
}

/** A counter of this process alone. */
class OwnSlots implements SlotCounter {
  count = 0;

  take(most: number): boolean {
    if (most > 0 && this.count >= most) return false;
    this.count += 1;
    return true;
  }

  release(): void {
    this.count -= 1;
  }
}

/** The state of one key's rates. Processes of one gateway share it. */
export interface RateCells {
  readonly requests: BucketCell;
  readonly tokens: BucketCell;
  readonly bodyBytes: BucketCell;
  readonly slots: SlotCounter;
}

/** Finds the cells of a name, such as `key 12`. */
export type FindCells = (name: string) => RateCells;

/** The cells of this process alone. */
export const ownCells: FindCells = () => ({
  requests: new OwnCell(),
  tokens: new OwnCell(),
  bodyBytes: new OwnCell(),
  slots: new OwnSlots(),
});

/** What is left of the limits of one key; undefined without a limit. */
interface RemainingLimits {
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
  readonly concurrentRequests: number | undefined;
}

/** What this replica knows of one key's rates: its own count, or its copy of what the limits server has. */
export class KeyRates implements KeyBuckets {
  readonly keyId: number;
  limits: KeyLimits = { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 0 };
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  /** The bucket of the bytes of request bodies. Each replica counts for itself: the limit protects its processes. */
  #bodyBytes: TokenBucket | undefined;
  /** The most requests at once that are admitted here; 0: no limit. */
  concurrentMax = 0;
  readonly #cells: RateCells;
  /** The slots that other replicas use. 0 while this replica counts its share. */
  openElsewhere = 0;
  /** Requests that wait for an answer of the limits server. */
  asking = 0;
  usedAtMs = 0;
  #share = 0;

  constructor(keyId: number, cells: RateCells) {
    this.keyId = keyId;
    this.#cells = cells;
  }

  /** Requests of this replica that have a slot. */
  get open(): number {
    return this.#cells.slots.count;
  }

  /**
   * Puts limits in force, or the share of them that this replica admits: a part above 0, at most 1. A changed limit leaves
   * the same part of a bucket.
   */
  adjust(limits: KeyLimits, share: number): void {
    if (share === this.#share && sameLimits(limits, this.limits)) return;
    const { requests, tokens } = this.#cells;
    this.limits = limits;
    this.#share = share;
    this.requests = resized(this.requests, shareOf(limits.requestsPerMinute, share), requests);
    this.tokens = resized(this.tokens, shareOf(limits.tokensPerMinute, share), tokens);
    this.concurrentMax = Math.floor(shareOf(limits.concurrentRequests, share));
  }

  /**
   * Takes bytes of a body that has taken `before` bytes. A body larger than the limit of a minute needs a full bucket,
   * also if its length is not known in advance.
   */
  takeBodyBytes(bytes: number, before: number, perMinute: number, nowMs: number): RateLimitResult {
    this.#bodyBytes = resized(this.#bodyBytes, perMinute, this.#cells.bodyBytes);
    if (this.#bodyBytes === undefined) return { ok: true };
    const needed = Math.min(bytes, Math.max(0, perMinute - before));
    if (needed > 0) {
      const taken = this.#bodyBytes.take(needed, nowMs);
      if (!taken.ok) return taken;
    }
    this.#bodyBytes.correct(bytes - needed, nowMs);
    return { ok: true };
  }

  /** Takes a slot, which a permit gives back. Returns false if none is free. `most`: 0 for a slot in any case. */
  takeSlot(most = this.concurrentMax): boolean {
    return this.#cells.slots.take(most);
  }

  releaseSlot(): void {
    this.#cells.slots.release();
  }
}

/** A share of a limit is at least 1, or a key with a small limit could never be used. */
function shareOf(limit: number, share: number): number {
  return limit === 0 ? 0 : Math.max(1, limit * share);
}

function resized(
  bucket: TokenBucket | undefined,
  perMinute: number,
  cell: BucketCell,
): TokenBucket | undefined {
  if (perMinute === 0) return undefined;
  if (bucket === undefined) return new TokenBucket(perMinute, cell);
  bucket.resize(perMinute);
  return bucket;
}

function sameLimits(a: KeyLimits, b: KeyLimits): boolean {
  return (
    a.requestsPerMinute === b.requestsPerMinute &&
    a.tokensPerMinute === b.tokensPerMinute &&
    a.concurrentRequests === b.concurrentRequests
  );
}

/** A bucket is full again after a minute, so the rates of a key that is idle for longer are dropped. */
const IDLE_MS_MAX = 120_000;
const SWEEP_EVERY = 4096;

/** The rates of all keys that were used lately. */
export class RatesByKey {
  readonly #keys = new Map<number, KeyRates>();
  readonly #cells: FindCells;
  #uses = 0;

  constructor(cells: FindCells) {
    this.#cells = cells;
  }

  use(keyId: number, nowMs: number): KeyRates {
    this.#uses += 1;
    if (this.#uses % SWEEP_EVERY === 0) this.#sweep(nowMs);
    let rates = this.#keys.get(keyId);
    if (rates === undefined) {
      rates = new KeyRates(keyId, this.#cells(`key ${keyId}`));
      this.#keys.set(keyId, rates);
    }
    rates.usedAtMs = nowMs;
    return rates;
  }

  #sweep(nowMs: number): void {
    for (const [keyId, { open, asking, usedAtMs }] of this.#keys) {
      if (open + asking === 0 && nowMs - usedAtMs > IDLE_MS_MAX) this.#keys.delete(keyId);
    }
  }
}

/** Counts what the requests of a permit use. */
export interface RateCounter {
  readonly clock: Clock;
  takeTokens(rates: KeyRates, estimate: number): RateLimitResult | Promise<RateLimitResult>;
  correctTokens(rates: KeyRates, difference: number): void;
  /** The request had a slot. */
  released(rates: KeyRates): void;
}

/** The permission to run one request. It has a slot of the rates. */
export class RateLimitPermit {
  readonly #rates: KeyRates;
  readonly #counter: RateCounter;
  #isOpen = true;
  #estimated = 0;
  #bodyBytes = 0;

  constructor(rates: KeyRates, counter: RateCounter) {
    this.#rates = rates;
    this.#counter = counter;
  }

  get buckets(): KeyBuckets {
    return this.#rates;
  }

  /** What the key can use once this request has ended. */
  remaining(): RemainingLimits {
    const { concurrentMax, requests, tokens, open, openElsewhere } = this.#rates;
    const now = this.#counter.clock.monotonicMs();
    const others = openElsewhere + open - (this.#isOpen ? 1 : 0);
    return {
      requests: requests?.remaining(now),
      tokens: tokens?.remaining(now),
      concurrentRequests: concurrentMax > 0 ? Math.max(0, concurrentMax - others) : undefined,
    };
  }

  /** Takes bytes of the request's body from the key's rate. If that fails, nothing was taken. */
  takeBodyBytes(bytes: number, perMinute: number): RateLimitResult {
    const nowMs = this.#counter.clock.monotonicMs();
    const taken = this.#rates.takeBodyBytes(bytes, this.#bodyBytes, perMinute, nowMs);
    this.#bodyBytes += bytes;
    return taken;
  }

  /** Takes the prompt's estimate from the token rate. If that fails, nothing was taken. */
  takeTokens(estimate: number): RateLimitResult | Promise<RateLimitResult> {
    this.#estimated = estimate;
    return this.#counter.takeTokens(this.#rates, estimate);
  }

  /** Replaces the estimate by the tokens that the provider counted. Call it at most once. */
  correctTokens(counted: number): void {
    this.#counter.correctTokens(this.#rates, counted - this.#estimated);
  }

  /** Frees the slot of the key's concurrency. A second call is a bug and throws. */
  release(): void {
    assert(this.#isOpen, "a permit is released twice");
    this.#isOpen = false;
    this.#rates.releaseSlot();
    this.#counter.released(this.#rates);
  }
}
