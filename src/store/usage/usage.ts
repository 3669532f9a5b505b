import type { UsageSums } from "../../contract/account/usageReport.ts";
import { DAY_MS, HOUR_MS, isoTime, type DaySpan } from "../../lib/clock.ts";
import type { Connection, Pause } from "../connection.ts";
import { idsOf } from "../reports/latency.ts";
import {
  figureNames,
  figuresIn,
  inOrder,
  ofDays,
  retentionStart,
  RUNNING_REQUESTS,
  sourcesOf,
  sumReader,
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
async function usageReport(
  connection: Connection,
  by: UsageGrouping,
  { account, since = 0, until = END_MS }: UsageFilter,
): Promise<UsageRow[]> {
  return await connection.inSnapshot(async (snapshot) => {
    const sources = sourcesOf(
      snapshot.paths,
      { from: since, to: until },
      await retentionStart(snapshot),
      account === undefined
        ? undefined
        : "account_id = (SELECT id FROM accounts WHERE name = $account)",
    );
    const sum = { sources, by: [by], figures: operatorFigures };
    const sums = sumsText(sum);
    const rows = await snapshot.rows<{ group: string | bigint }>(
      `SELECT ${NAMES[by] ?? `sums.${by}`} AS "group", sums.* FROM (${sums}) AS sums ORDER BY 1`,
      account === undefined ? {} : { account },
    );
    return rows.map((row) => {
      const group = by === "day" ? dateOf(Number(row.group)) : String(row.group);
      return usageSums(group, figuresIn(row, operatorFigures));
    });
  });
}

type OperatorFigure = Exclude<FigureName, "writeOff" | "cacheSaved" | "operatorSaved">;

function isOperatorFigure(name: FigureName): name is OperatorFigure {
  return name !== "writeOff" && name !== "cacheSaved" && name !== "operatorSaved";
}

type AccountFigure = Exclude<OperatorFigure, "operatorCost">;

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

/** Usage of one model of an account in one period: a date in UTC, or the start of an hour in ISO 8601, UTC. */
export interface PeriodUsage {
  readonly period: string;
  readonly sums: UsageSums;
}

type ReadPeriods = (
  accountId: number,
  days: DaySpan,
  pause: Pause,
) => Promise<readonly PeriodUsage[]>;

/** Each day is one read. */
function accountUsage(connection: Connection): ReadPeriods {
  const readDay = sumReader({
    sources: [
      ...ofDays("day = $day AND account_id = $accountId"),
      {
        of: "requests",
        rows: `${RUNNING_REQUESTS} AND $day >= $runningSince AND account_id = $accountId AND at / ${DAY_MS} = $day`,
      },
    ],
    by: ["model"],
    figures: accountFigures,
  });
  const { conditions, at } = connection.paths.requestsById({ ofAccount: true, ofStatus: true });
  const oldestRunning = `SELECT min(${at}) AS at FROM requests WHERE ${conditions.join(" AND ")}`;
  return async (accountId, days, pause) => {
    const periods: PeriodUsage[] = [];
    // Requests that are admitted after this read belong to the last day at the earliest, and may be absent.
    const oldest = await connection.row<{ at: bigint | null }>(oldestRunning, {
      accountId,
      status: "running",
    });
    const oldestAt = oldest?.at ?? null;
    const runningSince = oldestAt === null ? days.to : Math.floor(Number(oldestAt) / DAY_MS);
    for (let day = days.from; day < days.to; day += 1) {
      const sums = await readDay(connection, { day, accountId, runningSince });
      const ofModel = sums.map(({ model, ...figures }) => usageSums(model, figures));
      for (const one of ofModel.toSorted((a, b) => inOrder(a.group, b.group)))
        periods.push({ period: dateOf(day), sums: one });
      await pause();
    }
    return periods;
  };
}

/** The requests that one step reads. */
const STEP_ROWS = 250;

/** Reads a few hundred requests at a time, newest first. */
function hourlyUsage(connection: Connection): ReadPeriods {
  const { conditions, id, at } = connection.paths.requestsById({
    ofAccount: true,
    ofStatus: false,
  });
  const ofAccount = `requests WHERE ${conditions.join(" AND ")} AND ${id} < $below AND ${id} >= $first`;
  const firstOfStep = `SELECT min(id) AS first
    FROM (SELECT id FROM ${ofAccount} ORDER BY ${id} DESC LIMIT ${STEP_ROWS}) AS step`;
  const readStep = sumReader({
    sources: [{ of: "requests", rows: `${ofAccount} AND ${at} >= $since AND ${at} < $until` }],
    by: ["hour", "model"],
    figures: accountFigures,
  });
  return async (accountId, days, pause) => {
    const periods: PeriodUsage[] = [];
    const span = { since: days.from * DAY_MS, until: days.to * DAY_MS };
    const ids = await idsOf(connection, { from: span.since, to: span.until });
    if (ids === undefined) return periods;
    for (let below = ids.last + 1; ;) {
      const place = { accountId, below, first: ids.first };
      const step = await connection.row<{ first: bigint | null }>(firstOfStep, place);
      if (step === undefined || step.first === null) return periods;
      const first = Number(step.first);
      const sums = await readStep(connection, { ...place, ...span, first });
      for (const { hour, model, ...figures } of sums)
        periods.push({ period: isoTime(hour * HOUR_MS), sums: usageSums(model, figures) });
      await pause();
      below = first;
    }
  };
}

export function usage(connection: Connection) {
  return {
    by: (group: UsageGrouping, filter: UsageFilter) => usageReport(connection, group, filter),
    ofAccountByDay: accountUsage(connection),
    ofAccountByHour: hourlyUsage(connection),
  };
}
