import type { UsageSums } from "../../contract/account/usageReport.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import { DAY_MS, type DaySpan } from "../../lib/clock.ts";
import type { Connection, Dialect } from "../connection.ts";
import type { Steps } from "../steps.ts";

export const usageGroupings = ["day", "model", "provider", "account", "key"] as const;
export type UsageGrouping = (typeof usageGroupings)[number];

/** `group` is a UTC date for days. Amounts are nano-roubles. */
export interface UsageRow extends UsageSums {
  /** What the operator pays the providers, for routes with a configured cost. */
  operatorCost: bigint;
}

/**
 * `since` inclusive, `until` exclusive; milliseconds since 1970. A day with folded requests counts as a whole if any
 * part of it is in the span.
 */
export interface UsageFilter {
  account?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
}

/** SQL expressions: the group of a row of the totals, of a request, and the name of a `grouped` value. */
interface Grouping {
  readonly ofTotals: string;
  readonly ofRequest: string;
  readonly name: string;
}

const groupings: Record<UsageGrouping, Grouping> = {
  day: { ofTotals: "day", ofRequest: `at / ${DAY_MS}`, name: "grouped" },
  model: { ofTotals: "model", ofRequest: "model", name: "grouped" },
  provider: { ofTotals: "provider", ofRequest: "coalesce(provider, '')", name: "grouped" },
  account: {
    ofTotals: "account_id",
    ofRequest: "account_id",
    name: "(SELECT name FROM accounts WHERE id = grouped)",
  },
  key: {
    ofTotals: "key_id",
    ofRequest: "key_id",
    name: "(SELECT public_id FROM keys WHERE id = grouped)",
  },
};

/**
 * Sums usage by group: days oldest first, other groups by name. Whole days are read from the daily totals. Requests are
 * read only for parts of days, and while they run.
 */
export function* usageReport(
  connection: Connection,
  by: UsageGrouping,
  filter: UsageFilter,
): Steps<UsageRow[]> {
  const { account } = filter;
  return yield* connection.inSnapshot(function* (snapshot) {
    const { dialect } = snapshot;
    const { days, parts } = splitTime(filter, Number(yield* retentionStart(snapshot)));
    const wholeDays = { from: days.from * DAY_MS, to: days.to * DAY_MS };
    const ofAccount =
      account === undefined
        ? ""
        : "AND account_id = (SELECT id FROM accounts WHERE name = $account)";
    const query = reportQuery(by, [
      `${totalsQuery(by, days)} ${ofAccount} GROUP BY 1`,
      `${requestsQuery(by, runningRequests(dialect), wholeDays)} ${ofAccount}`,
      ...parts.map((part) => `${requestsQuery(by, allRequests(dialect), part)} ${ofAccount}`),
    ]);
    const rows = yield* snapshot.rows<SummedRow>(query, account === undefined ? {} : { account });
    return rows.map((row) => usageRow(by, row));
  });
}

function reportQuery(by: UsageGrouping, sources: readonly string[]): string {
  return `SELECT ${groupings[by].name} AS name, ${SUMS.map((name) => sumOf(`"${name}"`, name)).join(", ")}
    FROM (${sources.join(" UNION ALL ")}) AS sources
    GROUP BY grouped ORDER BY 1`;
}

/** The columns of each source, and of the report. */
const SUMS = [
  "requests",
  "failed",
  "prompt",
  "cached",
  "cacheWrite",
  "cacheWrite1h",
  "completion",
  "searches",
  "cost",
  "costRest",
  "own",
  "ownRest",
  "refunded",
  "refundedRest",
] as const;

function totalsQuery(by: UsageGrouping, { from, to }: DaySpan): string {
  return `SELECT ${groupings[by].ofTotals} AS grouped, ${TOKEN_SUMS},
      ${splitSum("charge", "cost")}, ${splitSum("operator_cost", "own")}, ${splitSum("refunded", "refunded")}
    FROM daily_totals WHERE day >= ${from} AND day < ${to}`;
}

export function allRequests({ using }: Dialect): string {
  return `requests ${using("requests_at")} WHERE`;
}

/** Requests that the totals do not count yet. */
export function runningRequests({ using }: Dialect): string {
  return `requests ${using("requests_not_done")} WHERE status = 'running' AND status <> 'done' AND`;
}

/** Sums of the columns of the totals, which requests have too. */
const TOKEN_SUMS = [
  sumOf("requests", "requests"),
  sumOf("failed", "failed"),
  sumOf("prompt_tokens", "prompt"),
  sumOf("cached_tokens", "cached"),
  sumOf("cache_write_tokens", "cacheWrite"),
  sumOf("cache_write_1h_tokens", "cacheWrite1h"),
  sumOf("completion_tokens", "completion"),
  sumOf("web_searches", "searches"),
].join(", ");

/** The refunds of a request, found by the index of refunds. */
export const REFUNDED = `(SELECT CAST(coalesce(sum(amount), 0) AS bigint) FROM ledger
    WHERE ledger.account_id = requests.account_id AND refund_of = requests.ledger_seq)`;

/** Each request in the columns of `totalsQuery`. */
function requestsQuery(by: UsageGrouping, source: string, { from, to }: TimeSpan): string {
  return `SELECT ${groupings[by].ofRequest}, 1, CASE WHEN status IN ('failed', 'interrupted') THEN 1 ELSE 0 END,
      prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, web_searches,
      ${splitAmount("charge")}, ${splitAmount("coalesce(operator_cost, 0)")}, ${splitAmount(REFUNDED)}
    FROM ${source} at >= ${from} AND at < ${to}`;
}

/** Sums of a query; money is split as in `splitSum`. */
export interface SummedUsage {
  name: string | bigint;
  requests: bigint;
  failed: bigint;
  prompt: bigint;
  cached: bigint;
  cacheWrite: bigint;
  cacheWrite1h: bigint;
  completion: bigint;
  searches: bigint;
  cost: bigint;
  costRest: bigint;
  refunded: bigint;
  refundedRest: bigint;
}

interface SummedRow extends SummedUsage {
  own: bigint;
  ownRest: bigint;
}

function usageRow(by: UsageGrouping, row: SummedRow): UsageRow {
  const group = by === "day" ? dateOf(Number(row.name)) : String(row.name);
  return { ...usageSums(row), group, operatorCost: joinSum(row.own, row.ownRest) };
}

/** `day`: days since 1970, in UTC. */
function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

export function usageSums(row: SummedUsage): UsageSums {
  return {
    group: String(row.name),
    requests: Number(row.requests),
    promptTokens: Number(row.prompt),
    cachedTokens: Number(row.cached),
    cacheWriteTokens: Number(row.cacheWrite),
    cacheWrite1hTokens: Number(row.cacheWrite1h),
    completionTokens: Number(row.completion),
    webSearches: Number(row.searches),
    cost: joinSum(row.cost, row.costRest),
    failed: Number(row.failed),
    refunded: joinSum(row.refunded, row.refundedRest),
  };
}

/** One day of an account. The groups are the models. */
export interface AccountDay {
  /** The date in UTC. */
  readonly date: string;
  readonly models: readonly UsageSums[];
}

/**
 * Reads the usage of an account, with its running requests. Hands over each day of the span, also days without requests, with its
 * models by name.
 * Each day is one snapshot, and the caller can pause between two days.
 */
export type ReadAccountUsage = (
  accountId: number,
  days: DaySpan,
  visit: (day: AccountDay) => void,
) => Steps<void>;

function sumsOfDay(dialect: Dialect): string {
  const sums = SUMS.filter((name) => !/^(?:cost|own|refunded)/.test(name));
  return `SELECT model AS name, ${sums.map((name) => sumOf(`"${name}"`, name)).join(", ")},
    ${splitSum("charge", "cost")}, ${splitSum("refunded", "refunded")}
  FROM (
    SELECT model, requests, failed, prompt_tokens AS prompt, cached_tokens AS cached,
      cache_write_tokens AS "cacheWrite", cache_write_1h_tokens AS "cacheWrite1h",
      completion_tokens AS completion, web_searches AS searches, charge, refunded
    FROM daily_totals WHERE day = $day AND account_id = $accountId
    UNION ALL
    SELECT model, 1, 0, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
      completion_tokens, web_searches, charge, 0
    FROM ${runningRequests(dialect)} $day >= $runningSince AND account_id = $accountId AND at / ${DAY_MS} = $day
  ) AS sources
  GROUP BY model ORDER BY model`;
}

export function accountUsage(connection: Connection): ReadAccountUsage {
  const { dialect } = connection;
  const ofDay = sumsOfDay(dialect);
  // The sign hides the column from PostgreSQL's planner, which might look for the first running request from the oldest on.
  const oldestRunning = `SELECT min(+at) AS at FROM ${runningRequests(dialect)} account_id = $accountId`;
  return function* (accountId, days, visit) {
    // Requests that are admitted after this read belong to the last day at the earliest, and may be absent.
    const oldest = yield* connection.row<{ at: bigint | null }>(oldestRunning, { accountId });
    const at = oldest?.at ?? null;
    const runningSince = at === null ? days.to : Math.floor(Number(at) / DAY_MS);
    for (let day = days.from; day < days.to; day += 1) {
      const models = yield* connection.rows<SummedUsage>(ofDay, { day, accountId, runningSince });
      visit({ date: dateOf(day), models: models.map(usageSums) });
      yield;
    }
  };
}

/** Milliseconds since 1970; `to` exclusive. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** Later than any date. */
const END_MS = 1e8 * DAY_MS;

/**
 * Splits a time span into whole days and at most two parts of days. A part that begins before `retentionStart` becomes
 * its whole day.
 */
export function splitTime(
  { since = 0, until = END_MS }: { since?: number | undefined; until?: number | undefined },
  retentionStart: number,
): { readonly days: DaySpan; readonly parts: readonly TimeSpan[] } {
  if (since >= until) return { days: { from: 0, to: 0 }, parts: [] };
  const days = { from: Math.ceil(since / DAY_MS), to: Math.floor(until / DAY_MS) };
  const ends =
    days.from > days.to
      ? [{ from: since, to: until }]
      : [
          { from: since, to: days.from * DAY_MS },
          { from: days.to * DAY_MS, to: until },
        ].filter(({ from, to }) => from < to);
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
export function* retentionStart(connection: Connection): Steps<bigint> {
  const row = yield* connection.row<{ since: bigint }>("SELECT kept_since AS since FROM retention");
  return row?.since ?? 0n;
}

/** A sum of integers. PostgreSQL's own type for it has decimals. */
export function sumOf(value: string, name: string): string {
  return `CAST(sum(${value}) AS bigint) AS "${name}"`;
}

/** Sums an amount in two columns, whole roubles and the rest: SQLite's `sum` fails above 64 bits. */
export function splitSum(amount: string, name: string): string {
  return [
    sumOf(`${amount} / ${NANO_ROUBLES_PER_ROUBLE}`, name),
    sumOf(`${amount} % ${NANO_ROUBLES_PER_ROUBLE}`, `${name}Rest`),
  ].join(", ");
}

/** The nano-roubles of both columns of `splitSum`. */
export function joinSum(roubles: bigint, rest: bigint): bigint {
  return roubles * NANO_ROUBLES_PER_ROUBLE + rest;
}

/** An amount in two columns, as in `splitSum`. */
export function splitAmount(amount: string): string {
  return `${amount} / ${NANO_ROUBLES_PER_ROUBLE}, ${amount} % ${NANO_ROUBLES_PER_ROUBLE}`;
}
