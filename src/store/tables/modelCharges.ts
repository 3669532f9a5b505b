import type { Connection } from "../sqlite/sqlite.ts";

/**
 * Counts the charges of an account for one model by the daily totals, folded ones too. Yields after each step of some days,
 * so the caller can pause there.
 */
export type CountModelCharges = (accountId: number, model: string) => Generator<undefined, number>;

/** The days that one step reads. */
const STEP_DAYS = 30;

export function modelCharges({ sqlite }: Connection): CountModelCharges {
  // The key of the totals begins with the day, so each day is searched on its own.
  const nextDay = sqlite.query<{ day: bigint | null }, { day: number }>(
    "SELECT min(day) AS day FROM daily_totals WHERE day > $day",
  );
  const ofDay = sqlite.query<
    { count: bigint | null },
    { day: number; accountId: number; model: string }
  >(
    "SELECT sum(charged) AS count FROM daily_totals WHERE day = $day AND account_id = $accountId AND model = $model",
  );
  return function* (accountId, model) {
    let count = 0;
    let day = Number.MIN_SAFE_INTEGER;
    for (let step = 1; ; step += 1) {
      const next = nextDay.get({ day })?.day ?? null;
      if (next === null) return count;
      day = Number(next);
      count += Number(ofDay.get({ day, accountId, model })?.count ?? 0);
      if (step % STEP_DAYS === 0) yield;
    }
  };
}
