import type { Clock } from "../lib/clock.ts";
import { oneReplica, type LiveReplicas } from "./rateLimits.ts";
import type { RateLimitResult } from "./tokenBucket.ts";

/** Limits wrong voucher codes, by account. In memory: a restart begins with none. */
export interface WrongCodeLimits {
  /** Whether the account may try a code now. It takes nothing. */
  check(accountId: number): RateLimitResult;
  /** Counts a wrong code. */
  count(accountId: number): void;
}

/** Wrong codes of one account in an hour, at all replicas together if there are not more than these. */
export const WRONG_CODES_MAX = 10;
const HOUR_MS = 3_600_000;

/** In memory. A replica admits its share, which is at least one code. */
export function createWrongCodeLimits(
  clock: Clock,
  replicas: LiveReplicas = oneReplica,
): WrongCodeLimits {
  /** The times of the last wrong codes of each account, oldest first. The account with the oldest last one is first. */
  const accounts = new Map<number, readonly number[]>();
  const share = (): number => Math.max(1, Math.floor(WRONG_CODES_MAX / replicas()));
  const dropOld = (sinceMs: number): void => {
    for (const [accountId, times] of accounts) {
      if ((times.at(-1) ?? sinceMs) > sinceMs) return;
      accounts.delete(accountId);
    }
  };
  return {
    check(accountId) {
      const times = accounts.get(accountId) ?? [];
      const freeAtMs = (times.at(-share()) ?? -Infinity) + HOUR_MS;
      const retryAfterMs = freeAtMs - clock.monotonicMs();
      return retryAfterMs > 0 ? { ok: false, retryAfterMs } : { ok: true };
    },
    count(accountId) {
      const nowMs = clock.monotonicMs();
      const times = [...(accounts.get(accountId) ?? []), nowMs].slice(-WRONG_CODES_MAX);
      accounts.delete(accountId);
      accounts.set(accountId, times);
      dropOld(nowMs - HOUR_MS);
    },
  };
}
