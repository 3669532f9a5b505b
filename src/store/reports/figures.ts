import { DAY_MS } from "../../lib/clock.ts";
import type { Connection, Dialect } from "../connection.ts";
import type { Steps } from "../steps.ts";
import {
  allRequests,
  joinSum,
  REFUNDED,
  runningRequests,
  splitAmount,
  splitTime,
  type TimeSpan,
} from "../tables/usage.ts";
import type { SteppedSpan } from "./span.ts";

/** Sums over requests. Amounts are nano-roubles. */
export interface Figures {
  readonly requests: number;
  readonly failed: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly completionTokens: number;
  readonly webSearches: number;
  readonly charged: bigint;
  readonly operatorCost: bigint;
  readonly refunded: bigint;
  readonly writeOff: bigint;
}

/** The columns of a row. An amount has two: whole roubles, and the rest in nano-roubles. */
const COUNTS = 8;
const AMOUNTS = 4;
const COLUMNS = COUNTS + 2 * AMOUNTS;

/**
 * Sums in the order of the columns. All are integers below 2^53: a row has at most 9.3e9 roubles, and less than 1e9
 * nano-roubles.
 */
export type Sums = Float64Array;

function noSums(): Sums {
  return new Float64Array(COLUMNS);
}

function addSums(to: Sums, more: Sums): Sums {
  for (let at = 0; at < COLUMNS; at += 1) to[at] = (to[at] ?? 0) + (more[at] ?? 0);
  return to;
}

export function figuresOf(sums: Sums): Figures {
  const count = (at: number): number => sums[at] ?? 0;
  const amount = (at: number): bigint =>
    joinSum(BigInt(count(COUNTS + 2 * at)), BigInt(count(COUNTS + 2 * at + 1)));
  return {
    requests: count(0),
    failed: count(1),
    promptTokens: count(2),
    cachedTokens: count(3),
    cacheWriteTokens: count(4),
    cacheWrite1hTokens: count(5),
    completionTokens: count(6),
    webSearches: count(7),
    charged: amount(0),
    operatorCost: amount(1),
    refunded: amount(2),
    writeOff: amount(3),
  };
}

const TOTALS_COLUMNS = `requests, failed, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
  completion_tokens, web_searches, ${["charge", "operator_cost", "refunded", "write_off"].map(splitAmount).join(", ")}`;
const REQUEST_COLUMNS = `1, CASE WHEN status IN ('failed', 'interrupted') THEN 1 ELSE 0 END, prompt_tokens, cached_tokens, cache_write_tokens,
  cache_write_1h_tokens, completion_tokens, web_searches,
  ${["charge", "coalesce(operator_cost, 0)", REFUNDED, "write_off"].map(splitAmount).join(", ")}`;
const SUMMED = Array.from({ length: COLUMNS }, (_, at) => `CAST(sum(c${at}) AS bigint)`).join(", ");
const NAMES = Array.from({ length: COLUMNS }, (_, at) => `c${at}`).join(", ");

/** `account`: the row id, for one account only. */
interface SourceOptions {
  readonly account?: number | undefined;
  readonly retentionStart: number;
}

/** What a query reads of a row of the totals, and of a request. */
interface Selected {
  readonly ofTotals: string;
  readonly ofRequest: string;
}

/** A `Row` without its step. */
const ALL: Selected = {
  ofTotals: `account_id, key_id, model, provider, ${TOTALS_COLUMNS}`,
  ofRequest: `account_id, key_id, model, coalesce(provider, ''), ${REQUEST_COLUMNS}`,
};

/** A `ProviderRow` without its step. */
const OF_PROVIDER: Selected = {
  ofTotals: `provider, requests, ${["charge", "operator_cost"].map(splitAmount).join(", ")}`,
  ofRequest: `coalesce(provider, ''), 1, ${["charge", "coalesce(operator_cost, 0)"].map(splitAmount).join(", ")}`,
};

/** The queries for all rows of a span: the step, which has a number from 0, and what is selected. */
function sources(
  dialect: Dialect,
  { from, to }: TimeSpan,
  firstMs: number,
  stepMs: number,
  { ofTotals, ofRequest, ...options }: SourceOptions & Selected,
): string[] {
  const { days, parts } = splitTime({ since: from, until: to }, options.retentionStart);
  const ofAccount = options.account === undefined ? "" : `AND account_id = ${options.account}`;
  const step = (at: string): string => `(${at} - ${firstMs}) / ${stepMs}`;
  const requests = (source: string, part: TimeSpan): string =>
    `SELECT ${step("at")}, ${ofRequest} FROM ${source} at >= ${part.from} AND at < ${part.to} ${ofAccount}`;
  return [
    `SELECT ${step(`day * ${DAY_MS}`)}, ${ofTotals}
      FROM daily_totals WHERE day >= ${days.from} AND day < ${days.to} ${ofAccount}`,
    requests(runningRequests(dialect), { from: days.from * DAY_MS, to: days.to * DAY_MS }),
    ...parts.map((part) => requests(allRequests(dialect), part)),
  ];
}

type Row = readonly [
  step: number,
  accountId: number,
  keyId: number,
  model: string,
  provider: string,
  ...number[],
];

/** The sums of a span by step and model, by step and provider, and by account and key. An absent provider is "". */
export interface UsageCells {
  readonly byModel: ReadonlyMap<string, readonly Sums[]>;
  readonly byProvider: ReadonlyMap<string, readonly Sums[]>;
  readonly byAccount: ReadonlyMap<number, Sums>;
  readonly byKey: ReadonlyMap<number, Sums>;
}

/**
 * Reads each row of a span once, and sums in all groupings at the same time. In SQL each grouping would sort all rows:
 * three times as slow.
 */
export function* readCells(
  connection: Connection,
  span: SteppedSpan,
  options: SourceOptions,
): Steps<UsageCells> {
  const { times } = span;
  const cells = new Map<string, Map<string, Sums[]>>();
  const byKey = new Map<number, Sums>();
  const accountOfKey = new Map<number, number>();
  for (const query of steppedSources(connection.dialect, span, { ...options, ...ALL })) {
    for (const row of yield* connection.plainRows<Row>(query)) {
      const [step, accountId, keyId, model, provider] = row;
      const ofModel = groupOf(cells, model, () => new Map<string, Sums[]>());
      const steps = groupOf(ofModel, provider, () => times.map(noSums));
      addRow(steps[Math.max(step, 0)] ?? noSums(), row);
      addRow(groupOf(byKey, keyId, noSums), row);
      accountOfKey.set(keyId, accountId);
    }
  }
  const byModel = new Map<string, Sums[]>();
  const byProvider = new Map<string, Sums[]>();
  for (const [model, providers] of cells) {
    for (const [provider, steps] of providers) {
      addSteps(
        groupOf(byModel, model, () => times.map(noSums)),
        steps,
      );
      addSteps(
        groupOf(byProvider, provider, () => times.map(noSums)),
        steps,
      );
    }
  }
  const byAccount = new Map<number, Sums>();
  for (const [keyId, sums] of byKey)
    addSums(groupOf(byAccount, accountOfKey.get(keyId) ?? 0, noSums), sums);
  return { byModel, byProvider, byAccount, byKey };
}

type ProviderRow = readonly [step: number, provider: string, requests: number, ...number[]];

/** Requests, charges and the operator's costs by provider and step. The other sums are 0. A third of the time of all. */
export function* readProviderSteps(
  connection: Connection,
  span: SteppedSpan,
  options: SourceOptions,
): Steps<ReadonlyMap<string, readonly Sums[]>> {
  const byProvider = new Map<string, Sums[]>();
  for (const query of steppedSources(connection.dialect, span, { ...options, ...OF_PROVIDER })) {
    for (const row of yield* connection.plainRows<ProviderRow>(query)) {
      const [step, provider, requests] = row;
      const steps = groupOf(byProvider, provider, () => span.times.map(noSums));
      const sums = steps[Math.max(step, 0)] ?? noSums();
      sums[0] = (sums[0] ?? 0) + requests;
      // Both amounts, in the first four columns of amounts.
      for (let at = 0; at < 4; at += 1)
        sums[COUNTS + at] = (sums[COUNTS + at] ?? 0) + ((row[3 + at] as number | null) ?? 0);
    }
  }
  return byProvider;
}

/** The last day counts as a whole: its requests are those until now. */
function steppedSources(
  dialect: Dialect,
  { times, stepMs, from, to }: SteppedSpan,
  options: SourceOptions & Selected,
): string[] {
  const [first = 0] = times;
  const end = stepMs === DAY_MS ? first + times.length * stepMs : to;
  return sources(dialect, { from, to: end }, first, stepMs, options);
}

function groupOf<Name, Group>(groups: Map<Name, Group>, name: Name, empty: () => Group): Group {
  let group = groups.get(name);
  if (group === undefined) groups.set(name, (group = empty()));
  return group;
}

function addSteps(to: readonly Sums[], more: readonly Sums[]): void {
  to.forEach((sums, step) => addSums(sums, more[step] ?? noSums()));
}

/** The sums of a whole span. */
export function* readTotal(
  connection: Connection,
  span: TimeSpan,
  options: SourceOptions,
): Steps<Figures> {
  const rows = sources(connection.dialect, span, 0, DAY_MS, { ...options, ...ALL });
  const query = `WITH rows (step, account, key, model, provider, ${NAMES}) AS (${rows.join(" UNION ALL ")})
    SELECT 0, 0, 0, '', '', ${SUMMED} FROM rows`;
  const sums = noSums();
  for (const row of yield* connection.plainRows<Row>(query)) addRow(sums, row);
  return figuresOf(sums);
}

/** The sum of some groups. */
export function totalOf(groups: Iterable<Sums>): Sums {
  const total = noSums();
  for (const sums of groups) addSums(total, sums);
  return total;
}

/** Orders names, or row ids, of groups that are equal otherwise. The rows of the engines come in different orders. */
export function inOrder<Name extends string | number>(one: Name, other: Name): number {
  return one < other ? -1 : Number(one > other);
}

const GROUPED = 5;

function addRow(to: Sums, row: Row): void {
  for (let at = 0; at < COLUMNS; at += 1)
    to[at] = (to[at] ?? 0) + ((row[GROUPED + at] as number | null) ?? 0);
}
