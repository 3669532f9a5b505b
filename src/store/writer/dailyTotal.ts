import { DAY_MS } from "../../lib/clock.ts";
import {
  cappedSums,
  dailyTotals,
  INT64_MAX,
  requests,
  totalSums,
  type totalGroup,
} from "../schema/schema.ts";
import type { WireAmount, WireRow } from "./requestRecord.ts";

/** What ended requests of one group add to the totals of a day. */
export type DailyTotal = Omit<typeof dailyTotals.$inferSelect, "refunded">;
type TotalGroup = Pick<DailyTotal, (typeof totalGroup)[number]>;
type SummedColumn = Extract<(typeof totalSums)[number], keyof WireRow>;

/** A request as the totals count it. What is left out is 0. */
type CountedRequest = Pick<WireRow, Exclude<keyof TotalGroup, "day"> | "at" | "status"> & {
  readonly [Name in SummedColumn]?: WireAmount | bigint | null;
};

/** What a request adds to the totals as it is in its row. */
const summedColumns = totalSums.filter((name): name is SummedColumn => name in requests);

const NOTHING = Object.fromEntries(
  totalSums.map((name) => [name, dailyTotals[name].mapFromDriverValue(0n)]),
) as Omit<DailyTotal, keyof TotalGroup>;

/** What these requests add to the totals of their days. Running ones add nothing. */
export function totalsOf(rows: readonly CountedRequest[]): readonly DailyTotal[] {
  const totals = new Map<string, DailyTotal>();
  for (const row of rows) {
    const { accountId, keyId, endpoint, model, status } = row;
    if (status === "running") continue;
    const [day, provider] = [Math.floor(row.at / DAY_MS), row.provider ?? ""];
    const group = `${day} ${keyId} ${endpoint} ${provider}\n${model}`;
    let total = totals.get(group);
    if (total === undefined) {
      total = { ...NOTHING, day, accountId, keyId, model, provider, endpoint };
      totals.set(group, total);
    }
    total.requests += 1;
    if (status === "failed" || status === "interrupted") total.failed += 1;
    if (isCharged(row)) total.charged += 1;
    const sums: Record<string, unknown> = total;
    for (const name of summedColumns) {
      const [sum, value] = [sums[name], row[name] ?? 0];
      if (typeof sum !== "bigint") sums[name] = Number(sum) + Number(value);
      else sums[name] = capped(name, sum + BigInt(value));
    }
  }
  return [...totals.values()];
}

function capped(name: string, sum: bigint): bigint {
  return cappedSums.includes(name) && sum > INT64_MAX ? INT64_MAX : sum;
}

/** A request has a charge in the ledger, also a charge of 0. */
export function isCharged({
  status,
  charge = 0,
}: Pick<CountedRequest, "status" | "charge">): boolean {
  return status === "done" || BigInt(charge ?? 0) > 0n;
}
