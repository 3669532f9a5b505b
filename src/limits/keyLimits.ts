import { SOON_MS } from "../contract/errors.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { createBucket, type Bucket, type LimitState, type Taken } from "./bucket.ts";

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
export interface Passage {
  /** Takes the prompt's estimate from the token rate; where it cannot, nothing is left to be corrected. */
  takeTokens(estimate: number): Taken;
  /** Replaces the estimate by what the provider counted; once. */
  correctTokens(counted: number): void;
  states(): LimitStates;
  /** Ends its share of the concurrency; the second call of the same passage is a bug. */
  release(): void;
}

export type Admission =
  | { ok: true; passage: Passage }
  | { ok: false; retryAfterMs: number; states: LimitStates };

export interface Limiter {
  /** Takes one request of the key's rate and concurrency. */
  admit(keyId: number, limits: KeyLimits): Admission;
}

interface KeyState {
  limits: KeyLimits;
  requests: Bucket | undefined;
  tokens: Bucket | undefined;
  open: number;
  usedAtMs: number;
}

/** Buckets are full again after a minute: what was unused for longer need not be remembered. */
const FORGET_AFTER_MS = 120_000;
const SWEEP_EVERY = 4096;

/** Rate and concurrency of all keys, in memory; a restart starts full. */
export function createLimiter(clock: Clock): Limiter {
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
        // A place is free as soon as any of its requests ends.
        return { ok: false, retryAfterMs: SOON_MS, states: statesOf(state, now) };
      }
      const taken = state.requests?.take(1, now);
      if (taken && !taken.ok) return { ...taken, states: statesOf(state, now) };
      state.open += 1;
      return { ok: true, passage: openPassage(state, clock) };
    },
  };
}

function openPassage(state: KeyState, clock: Clock): Passage {
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

function bucketOf(perMinute: number, now: number): Bucket | undefined {
  return perMinute > 0 ? createBucket(perMinute, now) : undefined;
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
