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

/** The permission to run one request. */
export interface RateLimitPermit {
  /** Takes the prompt's estimate from the token rate. If that fails, nothing was taken. */
  takeTokens(estimate: number): RateLimitResult;
  /** Replaces the estimate by the tokens that the provider counted. Call it at most once. */
  correctTokens(counted: number): void;
  states(): LimitStates;
  /** Frees the slot of the key's concurrency. A second call is a bug and throws. */
  release(): void;
}

export type RateLimitAdmission =
  | { ok: true; permit: RateLimitPermit }
  | { ok: false; retryAfterMs: number; states: LimitStates };

export interface RateLimiter {
  /** Takes one request from the key's rate, and one slot of its concurrency. */
  admit(keyId: number, limits: KeyLimits): RateLimitAdmission;
}

interface KeyState {
  limits: KeyLimits;
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  open: number;
  usedAtMs: number;
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
      assert(isOpen, "a permit is released twice");
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
    if (state.open === 0 && now - state.usedAtMs > IDLE_MS_MAX) states.delete(keyId);
  }
}

/** The values of the `x-ratelimit-*` headers for one limit. */
export interface LimitState {
  limit: number;
  remaining: number;
  /** Milliseconds until one more can be taken. */
  nextMs: number;
  /** Milliseconds until the bucket is full. */
  resetMs: number;
}

/** Whether the amount was taken. If not: after how many milliseconds it can be. */
export type RateLimitResult = { ok: true } | { ok: false; retryAfterMs: number };

/**
 * A token bucket: it holds one minute's worth and refills evenly. A correction, or an amount of more than one minute's
 * worth, can make its level negative.
 */
export interface TokenBucket {
  /** Takes the amount if the level allows it. */
  take(amount: number, nowMs: number): RateLimitResult;
  /** Takes the amount, or returns it if negative, whatever the level is. */
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
      // More than one minute's worth would never fit, so it needs a full bucket only.
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
          : { perMinute, bucket: createTokenBucket(perMinute, now) };
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
