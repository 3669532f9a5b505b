import { SOON_MS } from "../contract/errors.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { isLoopback } from "../config/address.ts";

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

export type RateLimitAdmission =
  | { ok: true; permit: RateLimitPermit }
  | { ok: false; retryAfterMs: number; buckets: KeyBuckets };

export interface RateLimiter {
  /** Takes one request from the key's rate, and one slot of its concurrency. */
  admit(keyId: number, limits: KeyLimits): RateLimitAdmission;
}

/** What is left of the limits of one key; undefined without a limit. */
interface RemainingLimits {
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
  readonly concurrentRequests: number | undefined;
}

interface KeyState extends KeyBuckets {
  limits: KeyLimits;
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  open: number;
  usedAtMs: number;
}

/** The permission to run one request. */
export class RateLimitPermit {
  readonly #state: KeyState;
  readonly #clock: Clock;
  #isOpen = true;
  #estimated = 0;

  /** Takes the slot. */
  constructor(state: KeyState, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
    state.open += 1;
  }

  get buckets(): KeyBuckets {
    return this.#state;
  }

  /** What the key can use once this request has ended. */
  remaining(): RemainingLimits {
    const { limits, requests, tokens, open } = this.#state;
    const now = this.#clock.monotonicMs();
    const others = open - (this.#isOpen ? 1 : 0);
    return {
      requests: requests?.remaining(now),
      tokens: tokens?.remaining(now),
      concurrentRequests:
        limits.concurrentRequests > 0 ? Math.max(0, limits.concurrentRequests - others) : undefined,
    };
  }

  /** Takes the prompt's estimate from the token rate. If that fails, nothing was taken. */
  takeTokens(estimate: number): RateLimitResult {
    this.#estimated = estimate;
    return this.#state.tokens?.take(estimate, this.#clock.monotonicMs()) ?? { ok: true };
  }

  /** Replaces the estimate by the tokens that the provider counted. Call it at most once. */
  correctTokens(counted: number): void {
    this.#state.tokens?.correct(counted - this.#estimated, this.#clock.monotonicMs());
  }

  /** Frees the slot of the key's concurrency. A second call is a bug and throws. */
  release(): void {
    assert(this.#isOpen, "a permit is released twice");
    this.#isOpen = false;
    this.#state.open -= 1;
  }
}

/** A bucket is full again after a minute, so the state of a key that is idle for longer is dropped. */
const IDLE_MS_MAX = 120_000;
const SWEEP_EVERY = 4096;

/** Rate and concurrency of all keys, in memory. A restart begins with full buckets. */
export function createRateLimiter(clock: Clock): RateLimiter {
  const states = new Map<number, KeyState>();
  let admitted = 0;
  const stateOf = (keyId: number, limits: KeyLimits, now: number): KeyState => {
    const known = states.get(keyId);
    if (known && sameLimits(known.limits, limits)) return known;
    const fresh: KeyState = {
      limits,
      requests: bucketOf(limits.requestsPerMinute, now),
      tokens: bucketOf(limits.tokensPerMinute, now),
      open: known?.open ?? 0,
      usedAtMs: now,
    };
    if (known) Object.assign(known, fresh);
    else states.set(keyId, fresh);
    return known ?? fresh;
  };
  return {
    admit(keyId, limits) {
      const now = clock.monotonicMs();
      admitted += 1;
      if (admitted % SWEEP_EVERY === 0) sweep(states, now);
      const state = stateOf(keyId, limits, now);
      state.usedAtMs = now;
      const { concurrentRequests } = limits;
      if (concurrentRequests > 0 && state.open >= concurrentRequests) {
        return { ok: false, retryAfterMs: SOON_MS, buckets: state };
      }
      const taken = state.requests?.take(1, now);
      if (taken && !taken.ok) return { ...taken, buckets: state };
      return { ok: true, permit: new RateLimitPermit(state, clock) };
    },
  };
}

function bucketOf(perMinute: number, now: number): TokenBucket | undefined {
  return perMinute > 0 ? new TokenBucket(perMinute, now) : undefined;
}

function sameLimits(a: KeyLimits, b: KeyLimits): boolean {
  return (
    a.requestsPerMinute === b.requestsPerMinute &&
    a.tokensPerMinute === b.tokensPerMinute &&
    a.concurrentRequests === b.concurrentRequests
  );
}

function sweep(states: Map<number, KeyState>, now: number): void {
  for (const [keyId, state] of states) {
    if (state.open === 0 && now - state.usedAtMs > IDLE_MS_MAX) states.delete(keyId);
  }
}

/** Whether the amount was taken. If not: after how many milliseconds it can be. */
export type RateLimitResult = { ok: true } | { ok: false; retryAfterMs: number };

const MINUTE_MS = 60_000;

/**
 * A token bucket: it holds one minute's worth and refills evenly. A correction, or an amount of more than one minute's
 * worth, can make its level negative.
 */
export class TokenBucket {
  readonly perMinute: number;
  #level: number;
  #levelAtMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#level = perMinute;
    this.#levelAtMs = nowMs;
  }

  /** Takes the amount if the level allows it. */
  take(amount: number, nowMs: number): RateLimitResult {
    this.#refill(nowMs);
    // More than one minute's worth would never fit, so it needs a full bucket only.
    const wanted = Math.min(amount, this.perMinute);
    if (this.#level < wanted) return { ok: false, retryAfterMs: this.#msUntil(wanted) };
    this.#level -= amount;
    return { ok: true };
  }

  /** Takes the amount, or returns it if negative, whatever the level is. */
  correct(amount: number, nowMs: number): void {
    this.#refill(nowMs);
    this.#level -= amount;
  }

  /** What can be taken now. */
  remaining(nowMs: number): number {
    this.#refill(nowMs);
    return Math.max(0, Math.floor(this.#level));
  }

  /** Milliseconds until one more can be taken. */
  nextMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#msUntil(1);
  }

  /** Milliseconds until the bucket is full. */
  resetMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#msUntil(this.perMinute);
  }

  #refill(nowMs: number): void {
    const refilled = ((nowMs - this.#levelAtMs) * this.perMinute) / MINUTE_MS;
    this.#level = Math.min(this.perMinute, this.#level + refilled);
    this.#levelAtMs = nowMs;
  }

  #msUntil(amount: number): number {
    return Math.max(0, ((amount - this.#level) * MINUTE_MS) / this.perMinute);
  }
}

/** Limits requests with an invalid key, by client address. Requests with a valid key are not counted. */
export interface FailedKeyLimits {
  /** Counts one invalid key, unless the address is over its limit. */
  count(address: string, perMinute: number): RateLimitResult;
}

/** With more addresses, the one that was idle longest is dropped. */
const ADDRESSES_MAX = 10_000;

export function createFailedKeyLimits(clock: Clock): FailedKeyLimits {
  const buckets = new Map<string, { perMinute: number; bucket: TokenBucket }>();
  return {
    count(address, perMinute) {
      if (perMinute === 0 || isLoopback(address)) return { ok: true };
      const now = clock.monotonicMs();
      const known = buckets.get(address);
      const entry =
        known?.perMinute === perMinute
          ? known
          : { perMinute, bucket: new TokenBucket(perMinute, now) };
      buckets.delete(address);
      buckets.set(address, entry);
      if (buckets.size > ADDRESSES_MAX) dropOldest(buckets);
      return entry.bucket.take(1, now);
    },
  };
}

function dropOldest(buckets: Map<string, unknown>): void {
  const [oldest] = buckets.keys();
  if (oldest !== undefined) buckets.delete(oldest);
}
