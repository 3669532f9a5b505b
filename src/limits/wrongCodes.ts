import type { Clock } from "../lib/clock.ts";
import type { RateLimitResult } from "./rateLimits.ts";

/** Limits wrong voucher codes, by account. In memory: a restart begins with none. */
export interface WrongCodeLimits {
  /** Whether the account may try a code now. It takes nothing. */
  check(accountId: number): RateLimitResult;
  /** Counts a wrong code. */
  count(accountId: number): void;
}

/** Wrong codes of one account in an hour. */
export const WRONG_CODES_MAX = 10;
const HOUR_MS = 3_600_000;

export function createWrongCodeLimits(clock: Clock): WrongCodeLimits {
  /** The times of the last wrong codes of each account, oldest first. The account with the oldest last one is first. */
  const accounts = new Map<number, readonly number[]>();
  const dropOld = (sinceMs: number): void => {
    for (const [accountId, times] of accounts) {
      if ((times.at(-1) ?? sinceMs) > sinceMs) return;
      accounts.delete(accountId);
    }
  };
  return {
    check(accountId) {
      const times = accounts.get(accountId) ?? [];
      const freeAtMs = (times.at(-WRONG_CODES_MAX) ?? -Infinity) + HOUR_MS;
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
