import { DAY_MS } from "../../lib/clock.ts";
import { splitSum } from "./usage.ts";

/** The pace of an account is what it was charged in the last days. */
const PACE_DAYS = 7;

/** Today counts as a part of a day: the pace is that of the last 6 whole days and today until now. */
export interface PaceSpan {
  /** In days since 1970. */
  readonly firstDay: number;
  readonly days: number;
}

export function paceSpan(nowMs: number): PaceSpan {
  const firstDay = Math.floor(nowMs / DAY_MS) - PACE_DAYS + 1;
  return { firstDay, days: (nowMs - firstDay * DAY_MS) / DAY_MS };
}

/**
 * A query for what accounts were charged from `$firstDay` on, in the two columns of `splitSum`. `accounts`: a condition for
 * `account_id`. Each day is named, because the totals are in the order of day and account.
 */
export function chargedSince(accounts = "1 = 1"): string {
  const days = Array.from({ length: PACE_DAYS }, (_, day) => `$firstDay + ${day}`).join(", ");
  return `SELECT account_id, ${splitSum("charge", "charge")} FROM daily_totals
    WHERE day IN (${days}) AND ${accounts} GROUP BY account_id`;
}

/** For how many days `left` lasts at this pace; undefined without charges. Both are nano-roubles. */
export function daysLeft(left: bigint, charged: bigint, { days }: PaceSpan): number | undefined {
  if (charged <= 0n) return undefined;
  return (Number(left > 0n ? left : 0n) / Number(charged)) * days;
}
