import type { UsageSums } from "../contract/usageForm.ts";
import { DAY_MS, type DaySpan } from "../lib/day.ts";
import type { Connection } from "./sqlite.ts";
import { summedApart } from "./summedApart.ts";
import { usageSums, type SummedUsage } from "./usage.ts";

/** One day of an account: the sums of each model that it used, which is the group. */
interface DayOfAccount {
  /** The date in UTC. */
  readonly date: string;
  readonly models: readonly UsageSums[];
}

/**
 * Reads what an account used from its daily totals and the requests that still run, one day a step and
 * each day of one moment: who reads many can let others work between two steps. Days without requests are there too.
 */
export type ReadAccountUsage = (accountId: number, days: DaySpan) => Generator<DayOfAccount, void>;

const SUMS_OF_DAY = `
  SELECT model AS name, sum(requests) AS requests, sum(failed) AS failed, sum(prompt) AS prompt,
    sum(cached) AS cached, sum(cacheWrite) AS cacheWrite, sum(completion) AS completion,
    ${summedApart("charge", "cost")}, ${summedApart("refunded", "refunded")}
  FROM (
    SELECT model, requests, failed, prompt_tokens AS prompt, cached_tokens AS cached,
      cache_write_tokens AS cacheWrite, completion_tokens AS completion, charge, refunded
    FROM daily_totals WHERE day = $day AND account_id = $accountId
    UNION ALL
    SELECT model, 1, 0, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, charge, 0
    FROM requests INDEXED BY requests_not_done
    WHERE $day >= $runningSince AND status = 'running' AND status <> 'done' AND account_id = $accountId
      AND at / ${DAY_MS} = $day
  )
  GROUP BY model`;

const OLDEST_RUNNING = `SELECT min(at) AS at FROM requests INDEXED BY requests_not_done
  WHERE status = 'running' AND status <> 'done' AND account_id = ?`;

export function accountUsage({ sqlite }: Connection): ReadAccountUsage {
  const sumsOfDay = sqlite.query<
    SummedUsage,
    { day: number; accountId: number; runningSince: number }
  >(SUMS_OF_DAY);
  const oldestRunning = sqlite.query<{ at: bigint | null }, [number]>(OLDEST_RUNNING);
  return function* (accountId, days) {
    // What is admitted from now on is of no earlier day, and a report may leave it out.
    const { at } = oldestRunning.get(accountId) ?? { at: null };
    const runningSince = at === null ? days.to : Math.floor(Number(at) / DAY_MS);
    for (let day = days.from; day < days.to; day += 1) {
      const models = sumsOfDay.all({ day, accountId, runningSince });
      yield { date: dateOf(day), models: models.map(usageSums) };
    }
  };
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, "2026-01-01".length);
}
