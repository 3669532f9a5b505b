import { isLoopback } from "../config/address.ts";
import { networkOfClient } from "../config/network.ts";
import type { Clock } from "../lib/clock.ts";
import { oneReplica, type LiveReplicas } from "./rateLimits.ts";
import { TokenBucket, type RateLimitResult } from "./tokenBucket.ts";

/** Limits requests with an invalid key, by client address, or by /64 network of IPv6. Requests with a valid key are not counted. */
export interface FailedKeyLimits {
  /** Counts one invalid key, unless the address is over its limit. */
  count(address: string, perMinute: number): RateLimitResult;
}

/** With more addresses, the one that was idle longest is dropped. */
const ADDRESSES_MAX = 10_000;

/**
 * In memory. A replica admits its share of the limit. A limits server is never asked about a request without a valid key:
 * a client could make it busy, and it would store addresses of clients.
 */
export function createFailedKeyLimits(
  clock: Clock,
  replicas: LiveReplicas = oneReplica,
): FailedKeyLimits {
  const buckets = new Map<string, TokenBucket>();
  return {
    count(address, perMinute) {
      if (perMinute === 0 || isLoopback(address)) return { ok: true };
      const client = networkOfClient(address);
      const now = clock.monotonicMs();
      const share = Math.max(1, perMinute / replicas());
      const bucket = buckets.get(client) ?? new TokenBucket(share, now);
      if (bucket.perMinute !== share) bucket.resize(share, now);
      buckets.delete(client);
      buckets.set(client, bucket);
      if (buckets.size > ADDRESSES_MAX) dropOldest(buckets);
      return bucket.take(1, now);
    },
  };
}

function dropOldest(buckets: Map<string, unknown>): void {
  const [oldest] = buckets.keys();
  if (oldest !== undefined) buckets.delete(oldest);
}
