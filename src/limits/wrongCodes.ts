import type { Clock } from "../lib/clock.ts";
import { type FindCells, ownCells } from "./keyRates.ts";
import { type LiveReplicas, oneReplica } from "./rateLimits.ts";
import { type RateLimitResult, TokenBucket } from "./tokenBucket.ts";
import { isLoopback } from "../config/address.ts";
import { networkOfClient } from "../config/network.ts";

/** Who tries a code: a key, together with all keys of its rotation chain. */
export interface Guesser {
  readonly accountId: number;
  /** The first key of the chain. */
  readonly firstKeyId: number;
}

/** Limits wrong voucher codes, by key and by account. In memory: a restart begins with none. */
export interface WrongCodeLimits {
  /** Whether the key may try a code now. It takes nothing. */
  check(guesser: Guesser): RateLimitResult;
  count(guesser: Guesser): void;
  /** Another process of the gateway has counted one. */
  hear(guesser: Guesser): void;
}

/**
 * Wrong codes of one key and its rotation chain in an hour, for all replicas together if they are at most this many.
 */
export const WRONG_CODES_OF_KEY_MAX = 10;
/** Wrong codes of all keys of an account in an hour, so that many keys do not get many guesses. */
export const WRONG_CODES_OF_ACCOUNT_MAX = 30;
const HOUR_MS = 3_600_000;

interface WrongCode {
  readonly firstKeyId: number;
  readonly atMs: number;
}

/** Counts in memory. A replica admits its share, which is at least one code. `tell` tells the other processes of a gateway. */
export function createWrongCodeLimits(
  clock: Clock,
  replicas: LiveReplicas = oneReplica,
  tell: (guesser: Guesser) => void = () => {},
): WrongCodeLimits {
  /** The last wrong codes of each account, oldest first. The account with the oldest last one is first. */
  const accounts = new Map<number, readonly WrongCode[]>();
  /** When the oldest of the wrong codes that fill a limit stops counting; in the past if the limit is not full. */
  const freeAtMs = (codes: readonly WrongCode[], max: number): number => {
    const share = Math.max(1, Math.floor(max / replicas()));
    return (codes.at(-share)?.atMs ?? -Infinity) + HOUR_MS;
  };
  const dropOld = (sinceMs: number): void => {
    for (const [accountId, codes] of accounts) {
      if ((codes.at(-1)?.atMs ?? sinceMs) > sinceMs) return;
      accounts.delete(accountId);
    }
  };
  const add = ({ accountId, firstKeyId }: Guesser): void => {
    const atMs = clock.monotonicMs();
    const codes = [...(accounts.get(accountId) ?? []), { firstKeyId, atMs }];
    accounts.delete(accountId);
    accounts.set(accountId, codes.slice(-WRONG_CODES_OF_ACCOUNT_MAX));
    dropOld(atMs - HOUR_MS);
  };
  return {
    check({ accountId, firstKeyId }) {
      const codes = accounts.get(accountId) ?? [];
      const ofKey = codes.filter((code) => code.firstKeyId === firstKeyId);
      const retryAfterMs =
        Math.max(
          freeAtMs(ofKey, WRONG_CODES_OF_KEY_MAX),
          freeAtMs(codes, WRONG_CODES_OF_ACCOUNT_MAX),
        ) - clock.monotonicMs();
      return retryAfterMs > 0 ? { ok: false, retryAfterMs } : { ok: true };
    },
    count({ accountId, firstKeyId }) {
      add({ accountId, firstKeyId });
      tell({ accountId, firstKeyId });
    },
    hear: add,
  };
}

/** Limits requests with an invalid key, by client address, or by /64 network of IPv6. Requests with a valid key are not counted. */
export interface FailedKeyLimits {
  /** Counts one invalid key, unless the address is over its limit. */
  count(address: string, perMinute: number): RateLimitResult;
}

/** With more addresses, the one that was idle longest is dropped. */
const ADDRESSES_MAX = 10_000;

/**
 * Counts in memory. A replica admits its share of the limit. A limits server is never asked about a request without a
 * valid key: a client could make it busy, and it would store addresses of clients.
 */
export function createFailedKeyLimits(
  clock: Clock,
  replicas: LiveReplicas = oneReplica,
  cells: FindCells = ownCells,
): FailedKeyLimits {
  const buckets = new Map<string, TokenBucket>();
  return {
    count(address, perMinute) {
      if (perMinute === 0 || isLoopback(address)) return { ok: true };
      const client = networkOfClient(address);
      const now = clock.monotonicMs();
      const share = Math.max(1, perMinute / replicas());
      const bucket =
        buckets.get(client) ?? new TokenBucket(share, cells(`address ${client}`).requests);
      bucket.resize(share);
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
