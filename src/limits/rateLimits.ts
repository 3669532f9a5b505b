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

export interface LimitStates {
  requests: LimitState | undefined;
  tokens: LimitState | undefined;
}

/** A request that was let in. */
export interface RateLimitPermit {
  /** Takes the prompt's estimate from the token rate; where it cannot, nothing is left to be corrected. */
  takeTokens(estimate: number): RateLimitResult;
  /** Replaces the estimate by what the provider counted; once. */
  correctTokens(counted: number): void;
  states(): LimitStates;
  /** Ends its share of the concurrency; the second call of the same passage is a bug. */
  release(): void;
}

export type RateLimitAdmission =
  | { ok: true; permit: RateLimitPermit }
  | { ok: false; retryAfterMs: number; states: LimitStates };

export interface RateLimiter {
  /** Takes one request of the key's rate and concurrency. */
  admit(keyId: number, limits: KeyLimits): RateLimitAdmission;
}

interface KeyState {
  limits: KeyLimits;
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  open: number;
  usedAtMs: number;
}

/** Buckets are full again after a minute: what was unused for longer need not be remembered. */
const FORGET_AFTER_MS = 120_000;
const SWEEP_EVERY = 4096;

/** Rate and concurrency of all keys, in memory; a restart starts full. */
export function createRateLimiter(clock: Clock): RateLimiter {
  const states = new Map<number, KeyState>();
  let admission = 0;
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
      admission += 1;
      if (admission % SWEEP_EVERY === 0) sweep(states, now);
      const state = stateOf(keyId, limits, now);
      state.usedAtMs = now;
      const { concurrentRequests } = limits;
      if (concurrentRequests > 0 && state.open >= concurrentRequests) {
        // A place is free as soon as any of its requests ends.
        return { ok: false, retryAfterMs: SOON_MS, states: statesOf(state, now) };
      }
      const taken = state.requests?.take(1, now);
      if (taken && !taken.ok) return { ...taken, states: statesOf(state, now) };
      state.open += 1;
      return { ok: true, permit: openPermit(state, clock) };
    },
  };
}

function openPermit(state: KeyState, clock: Clock): RateLimitPermit {
  let isOpen = true;
  let estimated = 0;
  return {
    takeTokens(estimate) {
      estimated = estimate;
      return state.tokens?.take(estimate, clock.monotonicMs()) ?? { ok: true };
    },
    correctTokens(counted) {
      state.tokens?.correct(counted - estimated, clock.monotonicMs());
    },
    states: () => statesOf(state, clock.monotonicMs()),
    release() {
      assert(isOpen, "a passage is released twice");
      isOpen = false;
      state.open -= 1;
    },
  };
}

function bucketOf(perMinute: number, now: number): TokenBucket | undefined {
  return perMinute > 0 ? createTokenBucket(perMinute, now) : undefined;
}

function statesOf(state: KeyState, now: number): LimitStates {
  return { requests: state.requests?.state(now), tokens: state.tokens?.state(now) };
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
    if (state.open === 0 && now - state.usedAtMs > FORGET_AFTER_MS) states.delete(keyId);
  }
}

/** What a caller is told of a limit, in the convention's `x-ratelimit-*` terms. */
export interface LimitState {
  limit: number;
  remaining: number;
  /** Until one can be taken. */
  nextMs: number;
  /** Until the bucket is full again. */
  resetMs: number;
}

/** Whether something was taken; where not, after how long it could be. */
export type RateLimitResult = { ok: true } | { ok: false; retryAfterMs: number };

/**
 * A token bucket that holds one minute's worth and refills evenly. It may come to be in debt: by a
 * correction, and by one that took more than a minute's worth.
 */
export interface TokenBucket {
  /** Takes the amount if it is there. */
  take(amount: number, nowMs: number): RateLimitResult;
  /** Takes (or gives back, when negative) whatever is there. */
  correct(amount: number, nowMs: number): void;
  state(nowMs: number): LimitState;
}

const MINUTE_MS = 60_000;

function createTokenBucket(perMinute: number, nowMs: number): TokenBucket {
  let level = perMinute;
  let levelAtMs = nowMs;
  const refill = (now: number): void => {
    level = Math.min(perMinute, level + ((now - levelAtMs) * perMinute) / MINUTE_MS);
    levelAtMs = now;
  };
  const msUntil = (amount: number): number =>
    Math.max(0, ((amount - level) * MINUTE_MS) / perMinute);
  return {
    take(amount, now) {
      refill(now);
      // What exceeds a whole minute's worth could never be taken: it waits for a full bucket instead.
      const wanted = Math.min(amount, perMinute);
      if (level < wanted) return { ok: false, retryAfterMs: msUntil(wanted) };
      level -= amount;
      return { ok: true };
    },
    correct(amount, now) {
      refill(now);
      level -= amount;
    },
    state(now) {
      refill(now);
      return {
        limit: perMinute,
        remaining: Math.max(0, Math.floor(level)),
        nextMs: msUntil(1),
        resetMs: msUntil(perMinute),
      };
    },
  };
}

/** Counts wrong keys by address, so that nobody can guess fast. A valid key never comes here. */
export interface FailedKeyLimits {
  /** Counts one, unless the address failed too often. */
  count(address: string, perMinute: number): RateLimitResult;
}

/** More addresses than this are not told apart: the oldest is forgotten. */
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
          : { perMinute, bucket: createTokenBucket(perMinute, now) };
      buckets.delete(address);
      buckets.set(address, entry);
      if (buckets.size > ADDRESSES_MAX) forgetOldest(buckets);
      return entry.bucket.take(1, now);
    },
  };
}

function forgetOldest(buckets: Map<string, unknown>): void {
  const [oldest] = buckets.keys();
  if (oldest !== undefined) buckets.delete(oldest);
}
