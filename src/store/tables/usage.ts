import { sql, type SQL } from "drizzle-orm";
import type { Database } from "bun:sqlite";
import type { UsageSums } from "../../contract/account/usageReport.ts";
import { DAY_MS, type DaySpan } from "../../lib/time.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import type { Connection } from "../sqlite.ts";
import { chargeRef } from "./ledger.ts";

export const usageGroupings = ["day", "model", "provider", "account", "key"] as const;
export type UsageGrouping = (typeof usageGroupings)[number];

/** `group` is a UTC date for days. Amounts are nano-roubles. */
export interface UsageRow extends UsageSums {
  /** What the operator pays for them, as far as the routes' cost is configured. */
  operatorCost: bigint;
}

/**
 * `since` inclusive, `until` exclusive; milliseconds since 1970. Of a day whose requests are folded
 * there is only the whole: it counts if any part of it is asked for.
 */
export interface UsageFilter {
  account?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
}

/** What a report groups by, of the totals and of a request, and how it names a group. */
interface Grouping {
  ofTotals(): SQL;
  ofRequest(): SQL;
  name(): SQL;
}

const groupings: Record<UsageGrouping, Grouping> = {
  day: {
    ofTotals: () => sql`day`,
    ofRequest: () => sql`at / ${DAY_MS}`,
    name: () => sql`date(grouped * ${DAY_MS / 1000}, 'unixepoch')`,
  },
  model: {
    ofTotals: () => sql`model`,
    ofRequest: () => sql`model`,
    name: () => sql`grouped`,
  },
  provider: {
    ofTotals: () => sql`provider`,
    ofRequest: () => sql`coalesce(provider, '')`,
    name: () => sql`grouped`,
  },
  account: {
    ofTotals: () => sql`account_id`,
    ofRequest: () => sql`account_id`,
    name: () => sql`(SELECT name FROM accounts WHERE id = grouped)`,
  },
  key: {
    ofTotals: () => sql`key_id`,
    ofRequest: () => sql`key_id`,
    name: () => sql`(SELECT public_id FROM keys WHERE id = grouped)`,
  },
};

/**
 * Days oldest first, other groups by name. Days are read from their totals, however many requests they
 * had; requests themselves only where a part of a day is asked for, and those that still run.
 */
export function usageReport(
  { db, sqlite }: Connection,
  by: UsageGrouping,
  filter: UsageFilter,
): UsageRow[] {
  return db.transaction((snapshot) => {
    const { days, parts } = splitTime(filter, Number(retentionStart(sqlite)));
    const counted = [
      ofTotals(by, days, filter.account),
      ofRequests(by, { from: days.from * DAY_MS, to: days.to * DAY_MS }, filter.account, "running"),
      ...parts.map((part) => ofRequests(by, part, filter.account)),
    ];
    return snapshot.all<SummedRow>(summed(by, counted)).map(usageRow);
  });
}

/** Sums up money as `splitSum` does, by values that are bound. */
function ofTotals(by: UsageGrouping, days: DaySpan, account: string | undefined): SQL {
  return sql`SELECT ${groupings[by].ofTotals()} AS grouped, sum(requests) AS requests, sum(failed) AS failed,
      sum(prompt_tokens) AS prompt, sum(cached_tokens) AS cached,
      sum(cache_write_tokens) AS cacheWrite, sum(completion_tokens) AS completion,
      sum(charge / ${NANO_ROUBLES_PER_ROUBLE}) AS cost, sum(charge % ${NANO_ROUBLES_PER_ROUBLE}) AS costRest,
      sum(operator_cost / ${NANO_ROUBLES_PER_ROUBLE}) AS own, sum(operator_cost % ${NANO_ROUBLES_PER_ROUBLE}) AS ownRest,
      sum(refunded / ${NANO_ROUBLES_PER_ROUBLE}) AS refunded, sum(refunded % ${NANO_ROUBLES_PER_ROUBLE}) AS refundedRest
    FROM daily_totals WHERE ${ofDays(days, account)}
    GROUP BY 1`;
}

function ofDays(days: DaySpan, account: string | undefined): SQL {
  if (account === undefined) return sql`day >= ${days.from} AND day < ${days.to}`;
  // The totals lie in the order of days: from one to the next there is, those of the account are a short way.
  return sql`day IN (
      WITH RECURSIVE days (day) AS (
        SELECT min(day) FROM daily_totals WHERE day >= ${days.from}
        UNION ALL
        SELECT (SELECT min(day) FROM daily_totals WHERE day > days.day) FROM days WHERE day < ${days.to}
      )
      SELECT day FROM days WHERE day < ${days.to}
    ) ${ofAccount(account)}`;
}

/** By two indexes for each request: that of a ledger's refs, and that of its refunds. */
const refundedOf = (): SQL => sql`(SELECT coalesce(sum(refund.amount), 0)
    FROM ledger AS charge JOIN ledger AS refund ON refund.refund_of = charge.id
    WHERE charge.ref = ${chargeRef("")} || public_id)`;

/** Each request as totals of its own; `running`: only those that are not in the totals yet. */
function ofRequests(
  by: UsageGrouping,
  span: TimeSpan,
  account: string | undefined,
  which: "all" | "running" = "all",
): SQL {
  const source =
    which === "running"
      ? sql`requests INDEXED BY requests_not_done WHERE status = 'running' AND status <> 'done' AND`
      : sql`requests INDEXED BY requests_at WHERE`;
  return sql`SELECT ${groupings[by].ofRequest()}, 1, status IN ('failed', 'interrupted'),
      prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens,
      charge / ${NANO_ROUBLES_PER_ROUBLE}, charge % ${NANO_ROUBLES_PER_ROUBLE},
      coalesce(operator_cost, 0) / ${NANO_ROUBLES_PER_ROUBLE}, coalesce(operator_cost, 0) % ${NANO_ROUBLES_PER_ROUBLE},
      ${refundedOf()} / ${NANO_ROUBLES_PER_ROUBLE}, ${refundedOf()} % ${NANO_ROUBLES_PER_ROUBLE}
    FROM ${source} at >= ${span.from} AND at < ${span.to} ${ofAccount(account)}`;
}

function ofAccount(name: string | undefined): SQL {
  return name === undefined
    ? sql``
    : sql`AND account_id = (SELECT id FROM accounts WHERE name = ${name})`;
}

/** Sums as SQLite gives them: money in whole roubles and the rest, summed apart. */
export interface SummedUsage {
  name: string;
  requests: bigint;
  failed: bigint;
  prompt: bigint;
  cached: bigint;
  cacheWrite: bigint;
  completion: bigint;
  cost: bigint;
  costRest: bigint;
  refunded: bigint;
  refundedRest: bigint;
}

interface SummedRow extends SummedUsage {
  own: bigint;
  ownRest: bigint;
}

function summed(by: UsageGrouping, counted: readonly SQL[]): SQL {
  return sql`SELECT ${groupings[by].name()} AS name, sum(requests) AS requests, sum(failed) AS failed,
      sum(prompt) AS prompt, sum(cached) AS cached, sum(cacheWrite) AS cacheWrite, sum(completion) AS completion,
      sum(cost) AS cost, sum(costRest) AS costRest, sum(own) AS own, sum(ownRest) AS ownRest,
      sum(refunded) AS refunded, sum(refundedRest) AS refundedRest
    FROM (${sql.join([...counted], sql` UNION ALL `)})
    GROUP BY grouped ORDER BY 1`;
}

function usageRow(row: SummedRow): UsageRow {
  return {
    ...usageSums(row),
    operatorCost: joinSum(row.own, row.ownRest),
  };
}

/** The sums, with money in nano-roubles again. */
function usageSums(row: SummedUsage): UsageSums {
  return {
    group: row.name,
    requests: Number(row.requests),
    promptTokens: Number(row.prompt),
    cachedTokens: Number(row.cached),
    cacheWriteTokens: Number(row.cacheWrite),
    completionTokens: Number(row.completion),
    cost: joinSum(row.cost, row.costRest),
    failed: Number(row.failed),
    refunded: joinSum(row.refunded, row.refundedRest),
  };
}

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
    ${splitSum("charge", "cost")}, ${splitSum("refunded", "refunded")}
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

/** Milliseconds since 1970, `to` left out. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** Whole days, and parts of other days. */
export interface SplitTime {
  readonly days: DaySpan;
  readonly parts: readonly TimeSpan[];
}

/** Beyond every time that a clock tells. */
const END_MS = 1e8 * DAY_MS;

/**
 * Takes a time apart into whole days and the parts of days at its ends, of which there are at most two.
 * A part that begins before `retentionStart` grows to its whole day: more of it is not told apart any more.
 */
function splitTime(
  { since = 0, until = END_MS }: { since?: number | undefined; until?: number | undefined },
  retentionStart: number,
): SplitTime {
  if (since >= until) return { days: { from: 0, to: 0 }, parts: [] };
  const days = { from: Math.ceil(since / DAY_MS), to: Math.floor(until / DAY_MS) };
  const cut =
    days.from > days.to
      ? [{ from: since, to: until }]
      : [
          { from: since, to: days.from * DAY_MS },
          { from: days.to * DAY_MS, to: until },
        ].filter(({ from, to }) => from < to);
  for (const { from } of cut.filter(({ from }) => from < retentionStart)) {
    const day = Math.floor(from / DAY_MS);
    days.from = Math.min(days.from, day);
    days.to = Math.max(days.to, day + 1);
  }
  return { days, parts: cut.filter(({ from }) => from >= retentionStart) };
}

const KEPT_SINCE = `SELECT CASE WHEN max(kept_since) > (SELECT max(at) FROM requests)
    THEN coalesce((SELECT min(at) FROM requests WHERE status <> 'running'), max(kept_since))
    ELSE max(kept_since) END AS since
  FROM retention`;

/**
 * Since when requests are told one by one: before that, some may be left in the totals of their day only. A fold
 * of an earlier version, by a clock that was ahead, noted a time that no request has reached. The oldest one that
 * has ended then tells it: what was folded is older, for the oldest go first.
 */
export function retentionStart(sqlite: Database): bigint {
  return sqlite.query<{ since: bigint | null }, []>(KEPT_SINCE).get()?.since ?? 0n;
}

/**
 * Sums of money may leave 64 bits, which SQLite refuses: this has it sum up the whole roubles of an amount, as `name`,
 * and apart what is left of them, as `nameRest`. `joinSum` makes nano-roubles of both.
 */
export function splitSum(amount: string, name: string): string {
  return `sum(${amount} / ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}, sum(${amount} % ${NANO_ROUBLES_PER_ROUBLE}) AS ${name}Rest`;
}

/** The sum in nano-roubles, of whole roubles and the rest. */
export function joinSum(whole: bigint, rest: bigint): bigint {
  return whole * NANO_ROUBLES_PER_ROUBLE + rest;
}
