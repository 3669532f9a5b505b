import type { UsageReport } from "../../contract/account/usageReport.ts";
import { formatRoubles, parseRoubles } from "../../lib/money.ts";
import { seriesOf, stepsUntil, type Series, type ValueKind } from "../charts/series.ts";

export type UsageRow = UsageReport["data"][number];

/** What a chart of the usage can count. */
export const units = ["roubles", "tokens", "requests"] as const;
export type Unit = (typeof units)[number];

/** The steps of each span, and what to ask the API for. */
const spans = {
  "24h": { by: "hour", steps: 24, days: 1 },
  "7d": { by: "day", steps: 7, days: 7 },
  "30d": { by: "day", steps: 30, days: 30 },
  "90d": { by: "day", steps: 90, days: 90 },
} as const;
type SpanName = keyof typeof spans;

/** The usage of a span by step and model. */
export interface Spending {
  readonly span: SpanName;
  readonly by: "hour" | "day";
  /** The start of each step. */
  readonly times: readonly string[];
  /** One for each step and model that was used in it. None is outside the steps. */
  readonly rows: readonly UsageRow[];
}

/** The query of GET /v1/usage for a span that ends now. The report has whole days, so it may begin before the span. */
export function spendingQuery(span: SpanName): { by: string; since: string } {
  const { by, days } = spans[span];
  const daysBack = by === "hour" ? days : days - 1;
  return { by: `${by},model`, since: `${daysBack}d` };
}

/** The rows of a report that are within the span. */
export function spendingOf(report: UsageReport, span: SpanName, nowMs: number): Spending {
  const { by, steps } = spans[span];
  const times = stepsUntil(nowMs, by, steps);
  const known = new Set(times.map((time) => Date.parse(time)));
  return { span, by, times, rows: report.data.filter((row) => known.has(Date.parse(timeOf(row)))) };
}

/** The series of a chart, one for each model. */
export function spendingSeries({ rows, times }: Spending, unit: Unit): readonly Series[] {
  return seriesOf(rows, times, {
    time: timeOf,
    name: ({ model = "" }) => model,
    value: (row) => valueOf(row, unit),
  });
}

/** What the values of a unit are. */
export function kindOf(unit: Unit): ValueKind {
  return unit === "roubles" ? "money" : "count";
}

/** Sums of several rows. */
export interface UsageSums {
  /** The step or the model. */
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
  readonly costRub: string;
  readonly refundedRub: string;
}

/** The sums of each model, the most expensive first. */
export function modelSums({ rows }: Spending): readonly UsageSums[] {
  const names = [...new Set(rows.map(({ model = "" }) => model))];
  return names
    .map((name) =>
      sumsOf(
        name,
        rows.filter(({ model = "" }) => model === name),
      ),
    )
    .toSorted((a, b) => {
      const more = nanoOf(b.costRub) - nanoOf(a.costRub);
      return more === 0n ? b.requests - a.requests : more > 0n ? 1 : -1;
    });
}

/** The sums of each step, the latest first. A step without use is among them. */
export function stepSums({ rows, times }: Spending): readonly UsageSums[] {
  const byTime = Map.groupBy(rows, (row) => Date.parse(timeOf(row)));
  return times.map((time) => sumsOf(time, byTime.get(Date.parse(time)) ?? [])).toReversed();
}

/** The sums of all rows. */
export function sumsOf(name: string, rows: readonly UsageRow[]): UsageSums {
  const count = (read: (row: UsageRow) => number): number =>
    rows.reduce((sum, row) => sum + read(row), 0);
  const money = (read: (row: UsageRow) => string): string =>
    formatRoubles(rows.reduce((sum, row) => sum + nanoOf(read(row)), 0n));
  return {
    name,
    requests: count((row) => row.requests),
    failed: count((row) => row.failed),
    prompt: count((row) => row.prompt_tokens),
    cached: count((row) => row.cached_tokens),
    completion: count((row) => row.completion_tokens),
    costRub: money((row) => row.cost_rub),
    refundedRub: money((row) => row.refunded_rub),
  };
}

/**
 * Days that an amount lasts at the pace of the span, or of its part since the first use; undefined if nothing was spent
 * in it.
 */
export function daysLeft(
  availableRub: string,
  { rows, span, times }: Spending,
): number | undefined {
  const spent = nanoOf(sumsOf("", rows).costRub);
  if (spent <= 0n) return undefined;
  const available = nanoOf(availableRub);
  if (available <= 0n) return 0;
  const firstMs = Math.min(...rows.map((row) => Date.parse(timeOf(row))));
  const unused = times.filter((time) => Date.parse(time) < firstMs).length;
  const { by, days } = spans[span];
  const used = by === "hour" ? days : days - unused;
  return Number((available * BigInt(used)) / spent);
}

function timeOf({ day, hour }: UsageRow): string {
  return day ?? hour ?? "";
}

function valueOf(row: UsageRow, unit: Unit): string | number {
  if (unit === "roubles") return row.cost_rub;
  return unit === "requests" ? row.requests : row.prompt_tokens + row.completion_tokens;
}

function nanoOf(amount: string): bigint {
  return parseRoubles(amount) ?? 0n;
}
