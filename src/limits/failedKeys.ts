import { isLoopback } from "../config/address.ts";
import type { Clock } from "../lib/clock.ts";
import { createBucket, type Bucket, type Taken } from "./bucket.ts";

/** Counts wrong keys by address, so that nobody can guess fast. A valid key never comes here. */
export interface FailedKeys {
  /** Counts one, unless the address failed too often. */
  count(address: string, perMinute: number): Taken;
}

/** More addresses than this are not told apart: the oldest is forgotten. */
const ADDRESSES_MAX = 10_000;

export function createFailedKeys(clock: Clock): FailedKeys {
  const buckets = new Map<string, { perMinute: number; bucket: Bucket }>();
  return {
    count(address, perMinute) {
      if (perMinute === 0 || isLoopback(address)) return { ok: true };
      const now = clock.monotonicMs();
      const known = buckets.get(address);
      const entry =
        known?.perMinute === perMinute
          ? known
          : { perMinute, bucket: createBucket(perMinute, now) };
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
