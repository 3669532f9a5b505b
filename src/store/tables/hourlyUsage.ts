import type { UsageSums } from "../../contract/account/usageReport.ts";
import { DAY_MS, HOUR_MS, isoTime, type DaySpan } from "../../lib/clock.ts";
import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
import {
  REFUNDED,
  runningRequests,
  splitSum,
  sumOf,
  usageSums,
  type SummedUsage,
} from "./usage.ts";

/** A part of the usage of one hour. The group is the model. */
export interface HourlyUsage {
  /** The start of the hour: a time in ISO 8601, UTC. */
  readonly hour: string;
  readonly sums: UsageSums;
}

/**
 * Reads the usage of an account by hour of admission, with its running requests. A request that is folded has no hour, so
 * it is not there. Hands over the sums of a few hundred requests, newest first, so an hour comes in many parts. The caller
 * can pause after each, and the report is that of its first step all the same.
 */
export type ReadHourlyUsage = (accountId: number, days: DaySpan, visit: Visit) => Steps<void>;

type Visit = (part: readonly HourlyUsage[]) => void;

/** The rows that one step reads. */
const STEP_ROWS = 250;

// The signs hide the column from the planner: the rows are found by the index of their account.
const IN_SPAN = "+at >= $since AND +at < $until";

/** What the account has in a span by the daily totals: the search for requests ends when all of them are found. */
interface Expected {
  charged: number;
  failed: number;
  /** Cancelled without a charge. */
  cancelled: number;
}

export function hourlyUsage(connection: Connection): ReadHourlyUsage {
  const reads = readsOf(connection);
  return function* (accountId, days, visit) {
    const span = { accountId, since: days.from * DAY_MS, until: days.to * DAY_MS };
    const { newestCharge, oldestCharge, before, running, expected } = yield* reads.start(
      span,
      days,
    );
    visit(running.map(({ hour, model }) => ({ hour, sums: { ...noUsage, group: model } })));
    yield;

    let left = expected.charged;
    for (let to = newestCharge; to >= oldestCharge && left > 0; to -= STEP_ROWS) {
      const sums = yield* reads.charged({ ...span, from: to - STEP_ROWS + 1, to });
      left -= countOf(sums);
      visit(sums);
      yield;
    }
    // What runs at the start is counted already, however it ends.
    const others = { ...span, before, running: JSON.stringify(running.map(({ id }) => id)) };
    left = expected.failed;
    for (const status of ["interrupted", "failed"] as const)
      left = yield* readUncharged(reads, { ...others, status }, left, visit);
    yield* readUncharged(reads, { ...others, status: "cancelled" }, expected.cancelled, visit);
  };
}

/** Reads the requests with one status and without a charge. Returns how many of `left` are not found. */
function* readUncharged(
  reads: Reads,
  place: Omit<Uncharged, "last">,
  left: number,
  visit: Visit,
): Steps<number> {
  let { before } = place;
  for (let stillLeft = left; ;) {
    const last = stillLeft > 0 ? yield* reads.lastOfStep({ ...place, before }) : undefined;
    if (last === undefined) return stillLeft;
    const sums = yield* reads.uncharged({ ...place, before, last });
    stillLeft -= countOf(sums);
    before = last;
    visit(sums);
    yield;
  }
}

function countOf(parts: readonly HourlyUsage[]): number {
  return parts.reduce((count, { sums }) => count + sums.requests, 0);
}

/** A running request. */
const noUsage = {
  requests: 1,
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  completionTokens: 0,
  webSearches: 0,
  cost: 0n,
  failed: 0,
  refunded: 0n,
} as const;

// Types and no interfaces: they are the values of statements, which need an index signature.
/** `since` inclusive, `until` exclusive, in milliseconds since 1970. */
type Span = { readonly accountId: number; readonly since: number; readonly until: number };
/** Requests that ended with a status, below a row id. */
type Ended = {
  readonly accountId: number;
  readonly status: "interrupted" | "failed" | "cancelled";
  readonly before: number;
};
/** Charges from one number to another in the account's ledger. */
type Charges = Span & { readonly from: number; readonly to: number };
/** Down to the row id `last`. `running`: ids that are left out, as a JSON array. */
type Uncharged = Span & Ended & { readonly last: number; readonly running: string };
type HourRow = SummedUsage & { readonly hour: bigint };

type Reads = ReturnType<typeof readsOf>;

/** The reads of a report. Each is one step. */
function readsOf(connection: Connection) {
  const { dialect } = connection;
  const charges = `requests ${dialect.using("requests_account_seq")}
    WHERE account_id = $accountId AND ledger_seq IS NOT NULL`;
  const rowId = dialect.idBesideIndex;
  const ended = `requests ${dialect.using("requests_not_done")}
    WHERE status = $status AND status <> 'done' AND account_id = $accountId AND ${rowId} < $before`;
  const endOfCharges = (end: "min" | "max") => `SELECT ${end}(ledger_seq) AS seq FROM ${charges}`;
  const running = `SELECT id, at, model FROM ${runningRequests(dialect)} account_id = $accountId AND ${IN_SPAN}`;
  const totals = `SELECT ${sumOf("charged", "charged")}, ${sumOf("failed", "failed")},
      ${sumOf("requests - charged - failed", "cancelled")}
    FROM daily_totals WHERE day = $day AND account_id = $accountId`;
  const charged = sumsOf(`${charges} AND ledger_seq BETWEEN $from AND $to AND ${IN_SPAN}`);
  const uncharged = sumsOf(`${ended} AND ${rowId} >= $last AND ${IN_SPAN} AND ledger_seq IS NULL
      AND id NOT IN (${dialect.numbersIn("$running")})`);
  const lastOfStep = `SELECT min(id) AS last FROM
    (SELECT id FROM ${ended} ORDER BY ${rowId} DESC LIMIT ${STEP_ROWS}) AS step`;

  const expectedOf = function* (
    snapshot: Connection,
    accountId: number,
    { from, to }: DaySpan,
  ): Steps<Expected> {
    const expected: Expected = { charged: 0, failed: 0, cancelled: 0 };
    for (let day = from; day < to; day += 1) {
      const row = yield* snapshot.row<Record<keyof Expected, bigint | null>>(totals, {
        day,
        accountId,
      });
      expected.charged += Number(row?.charged ?? 0);
      expected.failed += Number(row?.failed ?? 0);
      expected.cancelled += Number(row?.cancelled ?? 0);
    }
    return expected;
  };
  type Seq = { seq: bigint | null };

  return {
    /** All in one snapshot. */
    start: (span: Span, days: DaySpan) =>
      connection.inSnapshot(function* (snapshot) {
        const { accountId } = span;
        const newest = yield* snapshot.row<Seq>(endOfCharges("max"), { accountId });
        const oldest = yield* snapshot.row<Seq>(endOfCharges("min"), { accountId });
        const last = yield* snapshot.row<{ id: bigint | null }>(
          "SELECT max(id) AS id FROM requests",
        );
        const rows = yield* snapshot.rows<{ id: bigint; at: bigint; model: string }>(running, span);
        return {
          newestCharge: Number(newest?.seq ?? 0),
          oldestCharge: Number(oldest?.seq ?? 1),
          before: Number(last?.id ?? 0) + 1,
          running: rows.map(({ id, at, model }) => ({
            id: Number(id),
            hour: hourOf(Math.floor(Number(at) / HOUR_MS)),
            model,
          })),
          expected: yield* expectedOf(snapshot, accountId, days),
        };
      }),
    *charged(place: Charges) {
      return (yield* connection.rows<HourRow>(charged, place)).map(hourlyUsageOf);
    },
    *uncharged(place: Uncharged) {
      return (yield* connection.rows<HourRow>(uncharged, place)).map(hourlyUsageOf);
    },
    /** The row id of the last request of a step; undefined if there is none. */
    *lastOfStep({ accountId, status, before }: Ended): Steps<number | undefined> {
      const row = yield* connection.row<{ last: bigint | null }>(lastOfStep, {
        accountId,
        status,
        before,
      });
      const last = row?.last ?? null;
      return last === null ? undefined : Number(last);
    },
  };
}

/** The sums of requests by hour and model. The refunds are read once for each request. */
function sumsOf(source: string): string {
  return `SELECT at / ${HOUR_MS} AS hour, model AS name, count(*) AS requests,
      count(*) FILTER (WHERE status IN ('failed', 'interrupted')) AS failed,
      ${sumOf("prompt_tokens", "prompt")}, ${sumOf("cached_tokens", "cached")},
      ${sumOf("cache_write_tokens", "cacheWrite")}, ${sumOf("cache_write_1h_tokens", "cacheWrite1h")},
      ${sumOf("completion_tokens", "completion")}, ${sumOf("web_searches", "searches")},
      ${splitSum("charge", "cost")}, ${splitSum("refunded", "refunded")}
    FROM (SELECT *, ${REFUNDED} AS refunded FROM ${source}) AS requests GROUP BY 1, 2`;
}

function hourlyUsageOf(row: SummedUsage & { hour: bigint }): HourlyUsage {
  return { hour: hourOf(Number(row.hour)), sums: usageSums(row) };
}

function hourOf(hoursSince1970: number): string {
  return isoTime(hoursSince1970 * HOUR_MS);
}
