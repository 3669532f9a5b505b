import { DAY_MS } from "../../lib/clock.ts";
import {
  cappedSums,
  type dailyFigures,
  dailyTotals,
  INT64_MAX,
  requests,
  totalSums,
  type totalGroup,
} from "../schema/schema.ts";
import type { WireAmount, WireRecord, WireRow } from "./requestRecord.ts";

/** What ended requests of one group add to the totals of a day. */
export type DailyTotal = Omit<typeof dailyTotals.$inferSelect, "refunded">;
export type DailyFigure = typeof dailyFigures.$inferSelect;
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
    const { status } = row;
    if (status === "running") continue;
    const group = groupOf(row);
    const id = idOf(group);
    let total = totals.get(id);
    if (total === undefined) {
      total = { ...NOTHING, ...group };
      totals.set(id, total);
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

/** What the figures of these requests add to `daily_figures`. */
export function dailyFiguresOf(records: readonly WireRecord[]): readonly DailyFigure[] {
  const sums = new Map<string, DailyFigure>();
  for (const { row, figures } of records)
    for (const { figure, quantity } of figures) {
      const group = groupOf(row);
      const id = `${figure} ${idOf(group)}`;
      const sum = sums.get(id)?.quantity ?? 0;
      sums.set(id, { ...group, figure, quantity: sum + quantity });
    }
  return [...sums.values()];
}

function groupOf({ at, accountId, keyId, model, provider, endpoint }: CountedRequest): TotalGroup {
  const day = Math.floor(at / DAY_MS);
  return { day, accountId, keyId, model, provider: provider ?? "", endpoint };
}

function idOf({ day, keyId, endpoint, provider, model }: TotalGroup): string {
  return `${day} ${keyId} ${endpoint} ${provider}\n${model}`;
}

function capped(name: string, sum: bigint): bigint {
  return cappedSums.includes(name) && sum > INT64_MAX ? INT64_MAX : sum;
}

/** Whether a request has a charge in the history of its account. It may be 0. */
export function isCharged({
  status,
  charge = 0,
}: Pick<CountedRequest, "status" | "charge">): boolean {
  return status === "done" || BigInt(charge ?? 0) > 0n;
}
