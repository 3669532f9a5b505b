import { formatRoubles, parseRoubles } from "../../lib/money.ts";
import { formats, words } from "../language.ts";

/** What the values of a chart are: decimal texts of roubles, whole numbers, or milliseconds. */
export type ValueKind = "money" | "count" | "duration";

/** One value of a chart, exact. Null: nothing is known. */
export type ChartValue = string | number | null;

/** One part of a stack, or one line. */
export interface Series {
  readonly name: string;
  /** One for each step. */
  readonly values: readonly ChartValue[];
}

/** What a chart is drawn from. */
export interface ChartData {
  /** The start of each step in order, in ISO 8601 or as a date in UTC. Undefined while they load. */
  readonly times: readonly string[] | undefined;
  readonly by: "hour" | "day";
  readonly kind: ValueKind;
  readonly series: readonly Series[];
}

/** A value as the language writes it. `exact` shows every digit of an amount. */
export function shownChartValue(kind: ValueKind, value: ChartValue, isExact = false): string {
  if (value === null) return words.none;
  if (kind === "money") return formats.money(String(value), isExact ? "exact" : "short");
  return kind === "duration" ? formats.duration(Number(value)) : formats.count(Number(value));
}

/** The sum of values, exact: a decimal text for money. */
export function sumOf(kind: ValueKind, values: readonly ChartValue[]): ChartValue {
  const known = values.filter((value) => value !== null);
  if (kind !== "money") return known.reduce((sum: number, value) => sum + Number(value), 0);
  return formatRoubles(
    known.reduce((sum: bigint, value) => sum + (parseRoubles(String(value)) ?? 0n), 0n),
  );
}

/** The sum of each step over all series. */
export function stepSums(kind: ValueKind, series: readonly Series[], steps: number): ChartValue[] {
  return Array.from({ length: steps }, (_, at) =>
    sumOf(
      kind,
      series.map(({ values }) => values[at] ?? null),
    ),
  );
}

/** Colours of the palette in style/tokens.css. */
const COLOURS_MAX = 8;

/** The largest series first, and those without a colour of their own as one. */
export function largestSeries(kind: ValueKind, series: readonly Series[]): readonly Series[] {
  const sums = new Map(series.map((one) => [one, Number(sumOf(kind, one.values))]));
  const sorted = series.toSorted((a, b) => (sums.get(b) ?? 0) - (sums.get(a) ?? 0));
  if (sorted.length <= COLOURS_MAX) return sorted;
  const shown = sorted.slice(0, COLOURS_MAX - 1);
  const others = sorted.slice(COLOURS_MAX - 1);
  const steps = others[0]?.values.length ?? 0;
  return [...shown, { name: words.other(others.length), values: stepSums(kind, others, steps) }];
}

/** What a row of a report says: its step, its series and its value. */
export interface SeriesReader<Row> {
  readonly time: (row: Row) => string;
  readonly name: (row: Row) => string;
  readonly value: (row: Row) => ChartValue;
}

/** Makes series of the rows of a report, such as `by=day,model`. A step without a row has `"0"`. */
export function seriesOf<Row>(
  rows: readonly Row[],
  times: readonly string[],
  read: SeriesReader<Row>,
): readonly Series[] {
  const places = new Map(times.map((time, at) => [Date.parse(time), at]));
  const byName = new Map<string, ChartValue[]>();
  for (const row of rows) {
    const at = places.get(Date.parse(read.time(row)));
    if (at === undefined) continue;
    const name = read.name(row);
    const values = byName.get(name) ?? times.map((): ChartValue => "0");
    byName.set(name, values);
    values[at] = read.value(row);
  }
  return [...byName].map(([name, values]) => ({ name, values }));
}

const stepMs = { hour: 3_600_000, day: 86_400_000 } as const;

/** The starts of the `count` steps that end with the one that contains `nowMs`. Steps are those of UTC. */
export function stepsUntil(nowMs: number, by: "hour" | "day", count: number): readonly string[] {
  const lastMs = Math.floor(nowMs / stepMs[by]) * stepMs[by];
  return Array.from({ length: count }, (_, at) =>
    new Date(lastMs - (count - 1 - at) * stepMs[by]).toISOString(),
  );
}
