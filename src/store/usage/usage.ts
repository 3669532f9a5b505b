import type { UsageSums } from "../../contract/account/usageReport.ts";
import { DAY_MS, HOUR_MS, isoTime, type DaySpan } from "../../lib/clock.ts";
import type { Connection } from "../connection.ts";
import { idsOf } from "../reports/latency.ts";
import type { Steps } from "../steps.ts";
import {
  figureNames,
  figuresIn,
  inOrder,
  retentionStart,
  runningRequests,
  sourcesOf,
  sumReader,
  summedRowsText,
  sumsText,
  type FigureName,
  type Figures,
} from "./sums.ts";

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

/** Later than any date. */
const END_MS = 1e8 * DAY_MS;

/** The names of groups that are row ids. */
const NAMES: Readonly<Partial<Record<UsageGrouping, string>>> = {
  account: "(SELECT name FROM accounts WHERE id = sums.account)",
  key: "(SELECT public_id FROM keys WHERE id = sums.key)",
};

/** Sums usage by group: days oldest first, other groups by name. */
export function* usageReport(
  connection: Connection,
  by: UsageGrouping,
  { account, since = 0, until = END_MS }: UsageFilter,
): Steps<UsageRow[]> {
  return yield* connection.inSnapshot(function* (snapshot) {
    const sources = sourcesOf(
      snapshot.dialect,
      { from: since, to: until },
      yield* retentionStart(snapshot),
      account === undefined
        ? undefined
        : "account_id = (SELECT id FROM accounts WHERE name = $account)",
    );
    const sum = { sources, by: [by], figures: operatorFigures };
    const sums = sumsText(sum, summedRowsText(sum));
    const rows = yield* snapshot.rows<{ group: string | bigint }>(
      `SELECT ${NAMES[by] ?? `sums.${by}`} AS "group", sums.* FROM (${sums}) AS sums ORDER BY 1`,
      account === undefined ? {} : { account },
    );
    return rows.map((row) => {
      const group = by === "day" ? dateOf(Number(row.group)) : String(row.group);
      return usageSums(group, figuresIn(row, operatorFigures));
    });
  });
}

function isOperatorFigure(name: FigureName): name is Exclude<FigureName, "writeOff"> {
  return name !== "writeOff";
}

type AccountFigure = Exclude<FigureName, "writeOff" | "operatorCost">;

const operatorFigures = figureNames.filter(isOperatorFigure);
const accountFigures = operatorFigures.filter(
  (name): name is AccountFigure => name !== "operatorCost",
);

function usageSums<Sums extends Pick<Figures, AccountFigure>>(
  group: string,
  { charged, ...others }: Sums,
): Omit<Sums, "charged"> & { group: string; cost: bigint } {
  return { group, ...others, cost: charged };
}

/** `day`: days since 1970, in UTC. */
function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
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

export function accountUsage(connection: Connection): ReadAccountUsage {
  const running = runningRequests(connection.dialect);
  const readDay = sumReader({
    sources: [
      { of: "totals", rows: "daily_totals WHERE day = $day AND account_id = $accountId" },
      {
        of: "requests",
        rows: `${running} $day >= $runningSince AND account_id = $accountId AND at / ${DAY_MS} = $day`,
      },
    ],
    by: ["model"],
    figures: accountFigures,
  });
  // The sign hides the column from PostgreSQL's planner, which might look for the first running request from the oldest on.
  const oldestRunning = `SELECT min(+at) AS at FROM ${running} account_id = $accountId`;
  return function* (accountId, days, visit) {
    // Requests that are admitted after this read belong to the last day at the earliest, and may be absent.
    const oldest = yield* connection.row<{ at: bigint | null }>(oldestRunning, { accountId });
    const at = oldest?.at ?? null;
    const runningSince = at === null ? days.to : Math.floor(Number(at) / DAY_MS);
    for (let day = days.from; day < days.to; day += 1) {
      const sums = yield* readDay(connection, { day, accountId, runningSince });
      const models = sums.map(({ model, ...figures }) => usageSums(model, figures));
      visit({
        date: dateOf(day),
        models: models.toSorted((a, b) => inOrder(a.group, b.group)),
      });
      yield;
    }
  };
}

/** A part of the usage of one hour. The group is the model. */
export interface HourlyUsage {
  /** The start of the hour: a time in ISO 8601, UTC. */
  readonly hour: string;
  readonly sums: UsageSums;
}

/**
 * Reads the usage of an account by hour of admission, with its running requests. A request that is folded has no hour, so
 * it is not there. Hands over the sums of a few hundred requests, newest first, so an hour comes in many parts. The caller
 * can pause after each. Each request that was recorded at the first part counts once, as it is when it is read.
 */
export type ReadHourlyUsage = (
  accountId: number,
  days: DaySpan,
  visit: (part: readonly HourlyUsage[]) => void,
) => Steps<void>;

/** The requests that one step reads. */
const STEP_ROWS = 250;

export function hourlyUsage(connection: Connection): ReadHourlyUsage {
  const { idBesideIndex: rowId, accountOfList } = connection.dialect;
  const ofAccount = `requests WHERE ${accountOfList} = $accountId AND ${rowId} < $below AND ${rowId} >= $first`;
  const firstOfStep = `SELECT min(id) AS first
    FROM (SELECT id FROM ${ofAccount} ORDER BY ${rowId} DESC LIMIT ${STEP_ROWS}) AS step`;
  const readStep = sumReader({
    // The signs hide the column from the planner: the rows are found by the index of their account.
    sources: [{ of: "requests", rows: `${ofAccount} AND +at >= $since AND +at < $until` }],
    by: ["hour", "model"],
    figures: accountFigures,
  });
  return function* (accountId, days, visit) {
    const span = { since: days.from * DAY_MS, until: days.to * DAY_MS };
    const ids = yield* idsOf(connection, { from: span.since, to: span.until });
    if (ids === undefined) return;
    for (let below = ids.last + 1; ;) {
      const place = { accountId, below, first: ids.first };
      const step = yield* connection.row<{ first: bigint | null }>(firstOfStep, place);
      if (step === undefined || step.first === null) return;
      const first = Number(step.first);
      const sums = yield* readStep(connection, { ...place, ...span, first });
      visit(
        sums.map(({ hour, model, ...figures }) => ({
          hour: isoTime(hour * HOUR_MS),
          sums: usageSums(model, figures),
        })),
      );
      yield;
      below = first;
    }
  };
}
