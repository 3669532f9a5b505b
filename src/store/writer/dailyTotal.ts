import { DAY_MS } from "../../lib/clock.ts";
import { dailyTotals, totalSums, type totalGroup } from "../schema/schema.ts";

/** What ended requests of one group add to the totals of a day. */
export type DailyTotal = Omit<typeof dailyTotals.$inferSelect, "refunded">;

export function dayOf(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}

type TotalGroup = Pick<DailyTotal, (typeof totalGroup)[number]>;

export function emptyTotal(group: TotalGroup): DailyTotal {
  const zeros = totalSums.map((name) => [name, dailyTotals[name].mapFromDriverValue(0n)]);
  return { ...group, ...(Object.fromEntries(zeros) as Omit<DailyTotal, keyof TotalGroup>) };
}
