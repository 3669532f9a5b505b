import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
import { sumOf } from "./usage.ts";

/**
 * Counts the charges of an account for one model by the daily totals, folded ones too. The caller can pause after each
 * step of some days.
 */
export type CountModelCharges = (accountId: number, model: string) => Steps<number>;

/** The days that one step reads. */
const STEP_DAYS = 30;

// The key of the totals begins with the day, so each day is searched on its own.
const NEXT_DAY = "SELECT min(day) AS day FROM daily_totals WHERE day > $day";
const OF_DAY = `SELECT ${sumOf("charged", "count")} FROM daily_totals
  WHERE day = $day AND account_id = $accountId AND model = $model`;

export function modelCharges(connection: Connection): CountModelCharges {
  return function* (accountId, model) {
    let count = 0;
    let day = Number.MIN_SAFE_INTEGER;
    for (let step = 1; ; step += 1) {
      const next = yield* connection.row<{ day: bigint | null }>(NEXT_DAY, { day });
      if (next === undefined || next.day === null) return count;
      day = Number(next.day);
      const found = yield* connection.row<{ count: bigint | null }>(OF_DAY, {
        day,
        accountId,
        model,
      });
      count += Number(found?.count ?? 0);
      if (step % STEP_DAYS === 0) yield;
    }
  };
}
