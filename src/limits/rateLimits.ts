import { SOON_MS } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import {
  ownCells,
  RateLimitPermit,
  RatesByKey,
  type FindCells,
  type KeyBuckets,
  type KeyLimits,
  type KeyRates,
  type RateCounter,
} from "./keyRates.ts";
import type { RateLimitResult } from "./tokenBucket.ts";

export type RateLimitAdmission =
  | { ok: true; permit: RateLimitPermit }
  | { ok: false; retryAfterMs: number; buckets: KeyBuckets };

/** Limits the requests, the tokens and the requests at once of each key. */
export interface RateLimiter {
  /** Takes one request from the key's rate, and one slot of its concurrency. A Promise comes only from a limits server. */
  admit(keyId: number, limits: KeyLimits): RateLimitAdmission | Promise<RateLimitAdmission>;
}

/** How many replicas are alive, this one included: at least 1. */
export type LiveReplicas = () => number;

export const oneReplica: LiveReplicas = () => 1;

/**
 * Rate and concurrency of all keys, in memory: of this process, or shared by the processes of a gateway. A replica admits its
 * share of each limit: limit / live replicas. A restart begins with full buckets.
 */
export class LocalRates implements RateLimiter, RateCounter {
  readonly clock: Clock;
  readonly #replicas: LiveReplicas;
  readonly #keys: RatesByKey;

  constructor(clock: Clock, replicas: LiveReplicas, cells: FindCells = ownCells) {
    this.clock = clock;
    this.#replicas = replicas;
    this.#keys = new RatesByKey(cells);
  }

  admit(keyId: number, limits: KeyLimits): RateLimitAdmission {
    const now = this.clock.monotonicMs();
    const rates = this.#keys.use(keyId, now);
    const admitted = this.admitShare(rates, limits, now);
    return admitted.ok
      ? { ok: true, permit: new RateLimitPermit(rates, this) }
      : { ...admitted, buckets: rates };
  }

  /** Takes a slot and one request, or neither. */
  admitShare(rates: KeyRates, limits: KeyLimits, nowMs: number): RateLimitResult {
    this.#useShare(rates, limits);
    rates.openElsewhere = 0;
    if (!rates.takeSlot()) return { ok: false, retryAfterMs: SOON_MS };
    const result = rates.requests?.take(1, nowMs) ?? taken;
    if (!result.ok) rates.releaseSlot();
    return result;
  }

  /** Takes tokens from this replica's share. */
  takeShare(rates: KeyRates, estimate: number): RateLimitResult {
    this.#useShare(rates, rates.limits);
    return this.takeTokens(rates, estimate);
  }

  takeTokens(rates: KeyRates, estimate: number): RateLimitResult {
    return rates.tokens?.take(estimate, this.clock.monotonicMs()) ?? taken;
  }

  correctTokens(rates: KeyRates, difference: number): void {
    rates.tokens?.correct(difference, this.clock.monotonicMs());
  }

  released(): void {
    // The slot is counted by the permit.
  }

  #useShare(rates: KeyRates, limits: KeyLimits): void {
    rates.adjust(limits, 1 / this.#replicas());
  }
}

const taken: RateLimitResult = { ok: true };
