import { assert } from "../lib/assert.ts";

/**
 * Limits third attempts, so that requests which fail everywhere do not become a storm on providers that
 * are in trouble already: a share of the requests under way, and always a few.
 */
export interface RetryBudget {
  /** Takes a place among the third attempts under way, to be given back once by what it returns; undefined: none is free. */
  take(underWay: number): (() => void) | undefined;
}

/** As Envoy's retry budget has them: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/circuit_breaker.proto */
const SHARE = 0.2;
const PLACES_MIN = 3;
/** Long enough to come after a short stumble, and short beside any answer. */
const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 500;

/** `onRefused` is told of each third attempt that found no place. */
export function createRetryBudget(onRefused: () => void): RetryBudget {
  let taken = 0;
  return {
    take(underWay) {
      if (taken >= Math.max(PLACES_MIN, Math.floor(underWay * SHARE))) {
        onRefused();
        return undefined;
      }
      taken += 1;
      let isTaken = true;
      return () => {
        assert(isTaken, "a place for a retry is given back twice");
        isTaken = false;
        taken -= 1;
      };
    },
  };
}

/** How long a third attempt waits; `fraction` is a chance in [0, 1), so that many do not come back at once. */
export function backoffMs(fraction: number): number {
  return BACKOFF_MIN_MS + fraction * (BACKOFF_MAX_MS - BACKOFF_MIN_MS);
}
