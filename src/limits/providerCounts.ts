import type { Clock } from "../lib/clock.ts";
import type { ProviderCounters, RequestRate } from "../providers/registry.ts";
import type { OpenRequests } from "../providers/upstream.ts";
import { type FindCells, ownCells, type RateCells } from "./keyRates.ts";
import type { LiveReplicas } from "./rateLimits.ts";
import { TokenBucket } from "./tokenBucket.ts";

/**
 * Counts the requests to each provider, over all processes of the gateway. A provider that a reload creates anew goes on with
 * the counts of its id.
 */
export class ProviderCounts implements ProviderCounters {
  readonly #clock: Clock;
  readonly #replicas: LiveReplicas;
  readonly #find: FindCells;
  readonly #cells = new Map<string, RateCells>();

  constructor(clock: Clock, replicas: LiveReplicas, cells: FindCells = ownCells) {
    this.#clock = clock;
    this.#replicas = replicas;
    this.#find = cells;
  }

  openOf(providerId: string): OpenRequests {
    const { slots } = this.#cellsOf(providerId);
    return {
      get count() {
        return slots.count;
      },
      begin: () => void slots.take(0),
      end: () => slots.release(),
    };
  }

  /** Each replica allows its share of the limit, one request a minute at least. */
  rateOf(providerId: string, perMinute: number): RequestRate {
    const bucket = new TokenBucket(perMinute, this.#cellsOf(providerId).requests);
    const nowMs = (): number => {
      bucket.resize(Math.max(1, perMinute / this.#replicas()));
      return this.#clock.monotonicMs();
    };
    return {
      waitMs: () => bucket.nextMs(nowMs()),
      take: () => bucket.take(1, nowMs()).ok,
      giveBack: () => bucket.correct(-1, nowMs()),
    };
  }

  #cellsOf(providerId: string): RateCells {
    const known = this.#cells.get(providerId) ?? this.#find(`provider ${providerId}`);
    this.#cells.set(providerId, known);
    return known;
  }
}
