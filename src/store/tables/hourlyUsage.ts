import type { UsageSums } from "../../contract/account/usageReport.ts";
import { DAY_MS, HOUR_MS, isoTime, type DaySpan } from "../../lib/clock.ts";
import type { Connection } from "../sqlite/sqlite.ts";
import { REFUNDED, RUNNING_REQUESTS, splitSum, usageSums, type SummedUsage } from "./usage.ts";

/** A part of the usage of one hour. The group is the model. */
interface HourlyUsage {
  /** The start of the hour: a time in ISO 8601, UTC. */
  readonly hour: string;
  readonly sums: UsageSums;
}

/**
 * Reads the usage of an account by hour of admission, with its running requests. A request that is folded has no hour, so
 * it is not there. Yields the sums of a few hundred requests, newest first, so an hour comes in many parts. The caller can
 * pause after each, and the report is that of its first step all the same.
 */
export type ReadHourlyUsage = (
  accountId: number,
  days: DaySpan,
) => Generator<readonly HourlyUsage[], void>;

/** The rows that one step reads. */
const STEP_ROWS = 250;

const CHARGES = `requests INDEXED BY requests_account_seq
  WHERE account_id = $accountId AND ledger_seq IS NOT NULL`;
const ENDED = `requests INDEXED BY requests_not_done
  WHERE status = $status AND status <> 'done' AND account_id = $accountId AND id < $before`;
const IN_SPAN = "at >= $since AND at < $until";

/** What the account has in a span by the daily totals: the search for requests ends when all of them are found. */
interface Expected {
  charged: number;
  failed: number;
  /** Cancelled without a charge. */
  cancelled: number;
}

export function hourlyUsage(connection: Connection): ReadHourlyUsage {
  const reads = prepareReads(connection);
  return function* (accountId, days) {
    const span = { accountId, since: days.from * DAY_MS, until: days.to * DAY_MS };
    const { newestCharge, oldestCharge, before, running, expected } = reads.start(span, days);
    yield running.map(({ hour, model }) => ({ hour, sums: { ...noUsage, group: model } }));

    let left = expected.charged;
    for (let to = newestCharge; to >= oldestCharge && left > 0; to -= STEP_ROWS) {
      const sums = reads.charged({ ...span, from: to - STEP_ROWS + 1, to });
      left -= countOf(sums);
      yield sums;
    }
    // What runs at the start is counted already, however it ends.
    const others = { ...span, before, running: JSON.stringify(running.map(({ id }) => id)) };
    left = expected.failed;
    for (const status of ["interrupted", "failed"] as const)
      left = yield* readUncharged(reads, { ...others, status }, left);
    yield* readUncharged(reads, { ...others, status: "cancelled" }, expected.cancelled);
  };
}

/** Reads the requests with one status and without a charge. Returns how many of `left` are not found. */
function* readUncharged(
  reads: Reads,
  place: Omit<Uncharged, "last">,
  left: number,
): Generator<readonly HourlyUsage[], number> {
  let { before } = place;
  for (let stillLeft = left; ;) {
    const last = stillLeft > 0 ? reads.lastOfStep({ ...place, before }) : undefined;
    if (last === undefined) return stillLeft;
    const sums = reads.uncharged({ ...place, before, last });
    stillLeft -= countOf(sums);
    before = last;
    yield sums;
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

type Reads = ReturnType<typeof prepareReads>;

/** The reads of a report. Each is one step. */
function prepareReads({ sqlite }: Connection) {
  const newestCharge = sqlite.query<{ seq: bigint | null }, { accountId: number }>(
    `SELECT max(ledger_seq) AS seq FROM ${CHARGES}`,
  );
  const oldestCharge = sqlite.query<{ seq: bigint | null }, { accountId: number }>(
    `SELECT min(ledger_seq) AS seq FROM ${CHARGES}`,
  );
  const newestRow = sqlite.query<{ id: bigint | null }, []>("SELECT max(id) AS id FROM requests");
  const running = sqlite.query<{ id: bigint; at: bigint; model: string }, Span>(
    `SELECT id, at, model FROM ${RUNNING_REQUESTS} account_id = $accountId AND ${IN_SPAN}`,
  );
  const totals = sqlite.query<
    { charged: bigint; failed: bigint; cancelled: bigint },
    { day: number; accountId: number }
  >(`SELECT coalesce(sum(charged), 0) AS charged, coalesce(sum(failed), 0) AS failed,
      coalesce(sum(requests - charged - failed), 0) AS cancelled
    FROM daily_totals WHERE day = $day AND account_id = $accountId`);
  const charged = sqlite.query<HourRow, Charges>(
    sumsOf(`${CHARGES} AND ledger_seq BETWEEN $from AND $to AND ${IN_SPAN}`),
  );
  const uncharged = sqlite.query<HourRow, Uncharged>(
    sumsOf(`${ENDED} AND id >= $last AND ${IN_SPAN} AND ledger_seq IS NULL
      AND id NOT IN (SELECT value FROM json_each($running))`),
  );
  const lastOfStep = sqlite.query<{ last: bigint | null }, Ended>(
    `SELECT min(id) AS last FROM (SELECT id FROM ${ENDED} ORDER BY id DESC LIMIT ${STEP_ROWS})`,
  );

  const expectedOf = (accountId: number, { from, to }: DaySpan): Expected => {
    const expected: Expected = { charged: 0, failed: 0, cancelled: 0 };
    for (let day = from; day < to; day += 1) {
      const row = totals.get({ day, accountId });
      expected.charged += Number(row?.charged ?? 0);
      expected.failed += Number(row?.failed ?? 0);
      expected.cancelled += Number(row?.cancelled ?? 0);
    }
    return expected;
  };

  return {
    /** All in one snapshot. */
    start: (span: Span, days: DaySpan) =>
      sqlite.transaction(() => {
        const { accountId } = span;
        return {
          newestCharge: Number(newestCharge.get({ accountId })?.seq ?? 0),
          oldestCharge: Number(oldestCharge.get({ accountId })?.seq ?? 1),
          before: Number(newestRow.get()?.id ?? 0) + 1,
          running: running.all(span).map(({ id, at, model }) => ({
            id: Number(id),
            hour: hourOf(Math.floor(Number(at) / HOUR_MS)),
            model,
          })),
          expected: expectedOf(accountId, days),
        };
      })(),
    charged: (place: Charges) => charged.all(place).map(hourlyUsageOf),
    uncharged: (place: Uncharged) => uncharged.all(place).map(hourlyUsageOf),
    /** The row id of the last request of a step; undefined if there is none. */
    lastOfStep({ accountId, status, before }: Ended): number | undefined {
      const { last = null } = lastOfStep.get({ accountId, status, before }) ?? {};
      return last === null ? undefined : Number(last);
    },
  };
}

/** The sums of requests by hour and model. The refunds are read once for each request. */
function sumsOf(source: string): string {
  return `SELECT at / ${HOUR_MS} AS hour, model AS name, count(*) AS requests,
      sum(status IN ('failed', 'interrupted')) AS failed, sum(prompt_tokens) AS prompt,
      sum(cached_tokens) AS cached, sum(cache_write_tokens) AS cacheWrite,
      sum(cache_write_1h_tokens) AS cacheWrite1h, sum(completion_tokens) AS completion,
      sum(web_searches) AS searches, ${splitSum("charge", "cost")}, ${splitSum("refunded", "refunded")}
    FROM (SELECT *, ${REFUNDED} AS refunded FROM ${source}) GROUP BY 1, 2`;
}

function hourlyUsageOf(row: SummedUsage & { hour: bigint }): HourlyUsage {
  return { hour: hourOf(Number(row.hour)), sums: usageSums(row) };
}

function hourOf(hoursSince1970: number): string {
  return isoTime(hoursSince1970 * HOUR_MS);
}
