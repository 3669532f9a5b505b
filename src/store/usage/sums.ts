import { rowFigures, type RowFigure } from "../../contract/figures.ts";
import { DAY_MS, HOUR_MS, type DaySpan } from "../../lib/clock.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import type { AccessPaths, Connection, TimeSpan, Values } from "../connection.ts";
import { columnsOf, dailyTotals, totalGroup } from "../schema/schema.ts";

const summedColumns = columnsOf(dailyTotals, [...totalGroup, "charge", "charged"]);
type SummedColumn = (typeof summedColumns)[number];

/**
 * Sums over requests: those of the daily totals, by the names of their columns. `charged` is the amount of the charges.
 * Amounts are nano-roubles.
 */
export type Figures = Readonly<Pick<typeof dailyTotals.$inferSelect, SummedColumn>> & {
  readonly charged: bigint;
} & Readonly<Record<RowFigure["name"], number>>;
export type FigureName = keyof Figures;
export const figureNames: readonly FigureName[] = [
  ...summedColumns,
  "charged",
  ...rowFigures.map(({ name }) => name),
];

/** The names of the figures that are rows in a table of their own. */
const fields: ReadonlyMap<string, string> = new Map(
  rowFigures.map(({ name, field }) => [name, field]),
);

function columnOf(name: Exclude<FigureName, RowFigure["name"]>) {
  return dailyTotals[name === "charged" ? "charge" : name];
}

/** A name and the text of its value in a query. */
interface Part {
  readonly name: string;
  readonly value: string;
}

const amounts: ReadonlySet<FigureName> = new Set(
  ([...summedColumns, "charged"] as const).filter(
    (name) => typeof columnOf(name).mapFromDriverValue(0n) === "bigint",
  ),
);

/** A figure of one request that is not the column of the same name. */
const OF_REQUEST: Readonly<Partial<Record<FigureName, string>>> = {
  requests: "1",
  failed: "CASE WHEN status IN ('failed', 'interrupted') THEN 1 ELSE 0 END",
  operatorCost: "coalesce(operator_cost, 0)",
  cacheSaved: "coalesce(cache_saved, 0)",
  operatorSaved: "coalesce(operator_saved, 0)",
  // The index of refunds finds them.
  refunded: `(SELECT CAST(coalesce(sum(amount), 0) AS bigint) FROM ledger
    WHERE ledger.account_id = requests.account_id AND refund_of = requests.ledger_seq)`,
};

/** What requests are grouped by: in a row of the totals or of their figures, and of a request. Times count from 1970 on, in UTC. */
const GROUPS = {
  day: { totals: "day", requests: `at / ${DAY_MS}` },
  hour: { totals: "day * 24", requests: `at / ${HOUR_MS}` },
  account: { totals: "account_id", requests: "account_id" },
  key: { totals: "key_id", requests: "key_id" },
  model: { totals: "model", requests: "model" },
  provider: { totals: "provider", requests: "coalesce(provider, '')" },
} as const;
export type Group = keyof typeof GROUPS;

/** A row of a sum. Accounts and keys are row ids. The name of an absent provider is "". */
export type Summed<By extends Group, Name extends FigureName> = Pick<Figures, Name> & {
  readonly [One in By]: One extends "model" | "provider" ? string : number;
};

/** Rows to sum. `rows` follows FROM. `figures`: rows of `daily_figures`, which the totals of the same days do not have. */
export interface Source {
  readonly of: "totals" | "figures" | "requests";
  readonly rows: string;
}

export interface Sum<By extends Group = Group, Name extends FigureName = FigureName> {
  readonly sources: readonly Source[];
  readonly by: readonly By[];
  readonly figures: readonly Name[];
}

/** Whole days from the totals, the running requests of these days, and the requests of parts of days. */
export function sourcesOf(
  paths: AccessPaths,
  span: TimeSpan,
  retentionStart: number,
  condition = "1 = 1",
): readonly Source[] {
  const { days, parts } = splitTime(span, retentionStart);
  const { from, to } = days;
  const ofRunning = `at >= ${from * DAY_MS} AND at < ${to * DAY_MS} AND ${condition}`;
  return [
    ...ofDays(`day >= ${from} AND day < ${to} AND ${condition}`),
    { of: "requests", rows: `${RUNNING_REQUESTS} AND ${ofRunning}` },
    ...parts.map((part): Source => ({ of: "requests", rows: paths.requestsAt(part, condition) })),
  ];
}

/** The totals of days. */
export function ofDays(condition: string): readonly Source[] {
  return [
    { of: "totals", rows: `daily_totals WHERE ${condition}` },
    { of: "figures", rows: `daily_figures WHERE ${condition}` },
  ];
}

/** Follows FROM: requests that the totals do not count yet. The second condition is that of their index. */
export const RUNNING_REQUESTS = "requests WHERE status = 'running' AND status <> 'done'";

/**
 * Splits a time span into whole days and at most two parts of days. A part that begins before `retentionStart` becomes
 * its whole day.
 */
function splitTime(
  { from, to }: TimeSpan,
  retentionStart: number,
): { readonly days: DaySpan; readonly parts: readonly TimeSpan[] } {
  if (from >= to) return { days: { from: 0, to: 0 }, parts: [] };
  const days = { from: Math.ceil(from / DAY_MS), to: Math.floor(to / DAY_MS) };
  const ends =
    days.from > days.to
      ? [{ from, to }]
      : [
          { from, to: days.from * DAY_MS },
          { from: days.to * DAY_MS, to },
        ].filter((part) => part.from < part.to);
  const parts: TimeSpan[] = [];
  for (const part of ends) {
    if (part.from >= retentionStart) {
      parts.push(part);
      continue;
    }
    const day = Math.floor(part.from / DAY_MS);
    days.from = Math.min(days.from, day);
    days.to = Math.max(days.to, day + 1);
  }
  return { days, parts };
}

/** Requests that were settled before this time may be folded; milliseconds since 1970. */
export async function retentionStart(connection: Connection): Promise<number> {
  const row = await connection.row<{ since: bigint }>("SELECT kept_since AS since FROM retention");
  return Number(row?.since ?? 0n);
}

/** A query for the rows of all sources: the groups, and then the parts of each figure. */
export function rowsText({ sources, by, figures }: Sum): string {
  return sources
    .map(({ of, rows }) => {
      const parts = [
        ...by.map((group) => ({
          name: group,
          value: GROUPS[group][of === "requests" ? of : "totals"],
        })),
        ...figures.flatMap((name) => partsOf(name, of)),
      ];
      return `SELECT ${parts.map(({ name, value }) => `${value} AS "${name}"`).join(", ")} FROM ${rows}`;
    })
    .join(" UNION ALL ");
}

/**
 * A query for the sums of the sources by group. `figuresIn` reads the figures of its rows. It sums each source first, because
 * SQLite copies all rows of a union before it sums them.
 */
export function sumsText(sum: Sum): string {
  const ofEach = sum.sources.map((source) =>
    groupedText(sum, rowsText({ ...sum, sources: [source] })),
  );
  const [only] = ofEach;
  return only !== undefined && ofEach.length === 1
    ? only
    : groupedText(sum, ofEach.join(" UNION ALL "));
}

function groupedText({ by, figures }: Sum, rows: string): string {
  const columns = [
    ...by.map((group) => `"${group}"`),
    ...figures.flatMap(partNames).map((name) => sumOf(`"${name}"`, name)),
  ];
  const order = by.length === 0 ? "" : `GROUP BY ${by.map((_, at) => at + 1).join(", ")}`;
  return `SELECT ${columns.join(", ")} FROM (${rows}) AS rows ${order}`;
}

/** An amount has two parts: whole roubles, and the rest in nano-roubles. SQLite's `sum` fails above 64 bits. */
function partNames(name: FigureName): readonly string[] {
  return amounts.has(name) ? [name, restOf(name)] : [name];
}

function restOf(name: string): string {
  return `${name}Rest`;
}

function partsOf(name: FigureName, of: Source["of"]): readonly Part[] {
  const value = valueIn(name, of);
  const values = amounts.has(name) ? splitAmount(value) : [value];
  return partNames(name).map((part, at) => ({ name: part, value: values[at] ?? "" }));
}

function valueIn(name: FigureName, of: Source["of"]): string {
  const field = fields.get(name);
  if (field === undefined) {
    const column = columnOf(name as SummedColumn | "charged").name;
    if (of === "figures") return "0";
    return of === "totals" ? column : (OF_REQUEST[name] ?? column);
  }
  if (of === "totals") return "0";
  if (of === "figures") return `CASE figure WHEN '${field}' THEN quantity ELSE 0 END`;
  return `CASE WHEN has_figures = 0 THEN 0 ELSE coalesce((SELECT quantity FROM request_figures
    WHERE request_id = requests.id AND figure = '${field}'), 0) END`;
}

/** The figures of a row that has their parts. */
export function figuresIn<Name extends FigureName>(
  row: object,
  names: readonly Name[],
): Pick<Figures, Name> {
  const parts = row as Readonly<Record<string, bigint | number | null | undefined>>;
  const part = (name: string) => BigInt(parts[name] ?? 0);
  const figures: Partial<Record<FigureName, bigint | number>> = {};
  for (const name of names)
    figures[name] = amounts.has(name)
      ? joinSum(part(name), part(restOf(name)))
      : Number(parts[name] ?? 0);
  return figures as Pick<Figures, Name>;
}

/**
 * The parts of figures, in the order of `partNames`. Rows of `rowsText` are summed with them where SQLite would sort
 * all rows. All parts are integers below 2^53: a row has at most 9.3e9 roubles, and less than 1e9 nano-roubles in a
 * rest.
 */
export type Parts = Float64Array;

/** Makes the parts of nothing. */
export function partsMaker(names: readonly FigureName[]): () => Parts {
  const { length } = names.flatMap(partNames);
  return () => new Float64Array(length);
}

/** Adds the numbers from an index on. */
export function addParts(to: Parts, values: ArrayLike<unknown>, first = 0): void {
  for (let at = 0; at < to.length; at += 1) to[at] = (to[at] ?? 0) + (values[first + at] as number);
}

/** The figures that have these parts. */
export function figuresOf<Name extends FigureName>(
  parts: Parts,
  names: readonly Name[],
): Pick<Figures, Name> {
  const named = names.flatMap(partNames).map((part, at) => [part, parts[at]] as const);
  return figuresIn(Object.fromEntries<number | undefined>(named), names);
}

/** The sums by group, in no order. Without groups it is one row. The text of the query is made once. */
export function sumReader<By extends Group, Name extends FigureName>(
  sum: Sum<By, Name>,
): (connection: Connection, values?: Values) => Promise<Summed<By, Name>[]> {
  const text = sumsText(sum);
  return async (connection, values) => {
    const rows = await connection.rows<Readonly<Record<string, bigint | string>>>(text, values);
    return rows.map((row) => {
      const summed: Record<string, unknown> = figuresIn(row, sum.figures);
      for (const group of sum.by) {
        const value = row[group];
        summed[group] = typeof value === "bigint" ? Number(value) : value;
      }
      return summed as Summed<By, Name>;
    });
  };
}

/** Orders names, or row ids, of groups that are equal otherwise. The rows of the engines come in different orders. */
export function inOrder<Name extends string | number>(one: Name, other: Name): number {
  return one < other ? -1 : Number(one > other);
}

/** A sum of integers. PostgreSQL's own type for it has decimals. */
function sumOf(value: string, name: string): string {
  return `CAST(sum(${value}) AS bigint) AS "${name}"`;
}

/** Sums an amount in two columns, whole roubles and the rest. */
export function splitSum(amount: string, name: string): string {
  const [whole, rest] = splitAmount(amount);
  return [sumOf(whole, name), sumOf(rest, restOf(name))].join(", ");
}

/** The nano-roubles of both columns of `splitSum`. */
export function joinSum(roubles: bigint, rest: bigint): bigint {
  return roubles * NANO_ROUBLES_PER_ROUBLE + rest;
}

function splitAmount(amount: string): readonly [string, string] {
  return [`${amount} / ${NANO_ROUBLES_PER_ROUBLE}`, `${amount} % ${NANO_ROUBLES_PER_ROUBLE}`];
}
