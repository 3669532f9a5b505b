import type { Database } from "bun:sqlite";
import type { UsageSums } from "../../contract/account/usageReport.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import { DAY_MS, type DaySpan } from "../../lib/clock.ts";
import type { Connection } from "../sqlite/sqlite.ts";

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
  day: {
    ofTotals: "day",
    ofRequest: `at / ${DAY_MS}`,
    name: `date(grouped * ${DAY_MS / 1000}, 'unixepoch')`,
  },
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
export function usageReport(
  { sqlite }: Connection,
  by: UsageGrouping,
  filter: UsageFilter,
): UsageRow[] {
  const { account } = filter;
  return sqlite.transaction(() => {
    const { days, parts } = splitTime(filter, Number(retentionStart(sqlite)));
    const wholeDays = { from: days.from * DAY_MS, to: days.to * DAY_MS };
    const ofAccount =
      account === undefined
        ? ""
        : "AND account_id = (SELECT id FROM accounts WHERE name = $account)";
    const query = reportQuery(by, [
      `${totalsQuery(by, days)} ${ofAccount} GROUP BY 1`,
      `${requestsQuery(by, RUNNING_REQUESTS, wholeDays)} ${ofAccount}`,
      ...parts.map((part) => `${requestsQuery(by, ALL_REQUESTS, part)} ${ofAccount}`),
    ]);
    return sqlite
      .query<SummedRow, { account: string }[]>(query)
      .all(...(account === undefined ? [] : [{ account }]))
      .map(usageRow);
  })();
}

function reportQuery(by: UsageGrouping, sources: readonly string[]): string {
  return `SELECT ${groupings[by].name} AS name, sum(requests) AS requests, sum(failed) AS failed,
      sum(prompt) AS prompt, sum(cached) AS cached, sum(cacheWrite) AS cacheWrite,
      sum(cacheWrite1h) AS cacheWrite1h, sum(completion) AS completion, sum(searches) AS searches,
      sum(cost) AS cost, sum(costRest) AS costRest, sum(own) AS own, sum(ownRest) AS ownRest,
      sum(refunded) AS refunded, sum(refundedRest) AS refundedRest
    FROM (${sources.join(" UNION ALL ")})
    GROUP BY grouped ORDER BY 1`;
}

function totalsQuery(by: UsageGrouping, { from, to }: DaySpan): string {
  return `SELECT ${groupings[by].ofTotals} AS grouped, sum(requests) AS requests, sum(failed) AS failed,
      sum(prompt_tokens) AS prompt, sum(cached_tokens) AS cached,
      sum(cache_write_tokens) AS cacheWrite, sum(cache_write_1h_tokens) AS cacheWrite1h,
      sum(completion_tokens) AS completion, sum(web_searches) AS searches,
      ${splitSum("charge", "cost")}, ${splitSum("operator_cost", "own")}, ${splitSum("refunded", "refunded")}
    FROM daily_totals WHERE day >= ${from} AND day < ${to}`;
}

export const ALL_REQUESTS = "requests INDEXED BY requests_at WHERE";
/** Requests that the totals do not count yet. */
export const RUNNING_REQUESTS =
  "requests INDEXED BY requests_not_done WHERE status = 'running' AND status <> 'done' AND";

/** The refunds of a request, found by the index of refunds. */
export const REFUNDED = `(SELECT coalesce(sum(amount), 0) FROM ledger
    WHERE ledger.account_id = requests.account_id AND refund_of = requests.ledger_seq)`;

/** Each request in the columns of `totalsQuery`. */
function requestsQuery(by: UsageGrouping, source: string, { from, to }: TimeSpan): string {
  return `SELECT ${groupings[by].ofRequest}, 1, status IN ('failed', 'interrupted'),
      prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, web_searches,
      ${splitAmount("charge")}, ${splitAmount("coalesce(operator_cost, 0)")}, ${splitAmount(REFUNDED)}
    FROM ${source} at >= ${from} AND at < ${to}`;
}

/** Sums of a query; money is split as in `splitSum`. */
export interface SummedUsage {
  name: string;
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

function usageRow(row: SummedRow): UsageRow {
  return { ...usageSums(row), operatorCost: joinSum(row.own, row.ownRest) };
}

export function usageSums(row: SummedUsage): UsageSums {
  return {
    group: row.name,
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
interface AccountDay {
  /** The date in UTC. */
  readonly date: string;
  readonly models: readonly UsageSums[];
}

/**
 * Reads the usage of an account, with its running requests. Yields each day of the span, also days without requests.
 * Each day is one snapshot, so the caller can pause between two days.
 */
export type ReadAccountUsage = (accountId: number, days: DaySpan) => Generator<AccountDay, void>;

const SUMS_OF_DAY = `
  SELECT model AS name, sum(requests) AS requests, sum(failed) AS failed, sum(prompt) AS prompt,
    sum(cached) AS cached, sum(cacheWrite) AS cacheWrite,
      sum(cacheWrite1h) AS cacheWrite1h, sum(completion) AS completion, sum(searches) AS searches,
    ${splitSum("charge", "cost")}, ${splitSum("refunded", "refunded")}
  FROM (
    SELECT model, requests, failed, prompt_tokens AS prompt, cached_tokens AS cached,
      cache_write_tokens AS cacheWrite, cache_write_1h_tokens AS cacheWrite1h,
      completion_tokens AS completion, web_searches AS searches, charge, refunded
    FROM daily_totals WHERE day = $day AND account_id = $accountId
    UNION ALL
    SELECT model, 1, 0, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
      completion_tokens, web_searches, charge, 0
    FROM ${RUNNING_REQUESTS} $day >= $runningSince AND account_id = $accountId AND at / ${DAY_MS} = $day
  )
  GROUP BY model`;

const OLDEST_RUNNING = `SELECT min(at) AS at FROM ${RUNNING_REQUESTS} account_id = ?`;

export function accountUsage({ sqlite }: Connection): ReadAccountUsage {
  const sumsOfDay = sqlite.query<
    SummedUsage,
    { day: number; accountId: number; runningSince: number }
  >(SUMS_OF_DAY);
  const oldestRunning = sqlite.query<{ at: bigint | null }, [number]>(OLDEST_RUNNING);
  return function* (accountId, days) {
    // Requests that are admitted after this read belong to the last day at the earliest, and may be absent.
    const { at } = oldestRunning.get(accountId) ?? { at: null };
    const runningSince = at === null ? days.to : Math.floor(Number(at) / DAY_MS);
    for (let day = days.from; day < days.to; day += 1) {
      const models = sumsOfDay.all({ day, accountId, runningSince });
      yield {
        date: new Date(day * DAY_MS).toISOString().slice(0, 10),
        models: models.map(usageSums),
      };
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
export function retentionStart(sqlite: Database): bigint {
  return (
    sqlite.query<{ since: bigint }, []>("SELECT kept_since AS since FROM retention").get()?.since ??
    0n
  );
}

/** Sums an amount in two columns, whole roubles and the rest: SQLite's `sum` fails above 64 bits. */
export function splitSum(amount: string, name: string): string {
  return `sum(${amount} / ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}, sum(${amount} % ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}Rest`;
}

/** The nano-roubles of both columns of `splitSum`. */
export function joinSum(roubles: bigint, rest: bigint): bigint {
  return roubles * NANO_ROUBLES_PER_ROUBLE + rest;
}

/** An amount in two columns, as in `splitSum`. */
export function splitAmount(amount: string): string {
  return `${amount} / ${NANO_ROUBLES_PER_ROUBLE}, ${amount} % ${NANO_ROUBLES_PER_ROUBLE}`;
}
