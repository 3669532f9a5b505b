import { Type, type Static } from "@sinclair/typebox";
import { formatRoubles } from "../../lib/money.ts";
import { DAY_MS, midnightOf, type DaySpan } from "../../lib/clock.ts";
import { countFields, Roubles } from "../answerFields.ts";
import { invalidRequest } from "../errors.ts";
import { countsOf, type Usage } from "../figures.ts";
import { oneOf } from "../requestFields.ts";
import type { Annotations } from "../validationMessage.ts";

const groupings = ["day", "model", "day,model", "hour", "hour,model"] as const;

/** A report without `since` covers this many days. */
const DAYS_DEFAULT = 30;
export const USAGE_DAYS_MAX = 366;
/** A report by hour reads requests instead of sums, so it covers at most this many days. */
const HOURLY_DAYS_MAX = 3;
const DAYS_BACK = /^(\d{1,5})d$/;
const DAY_EXPECTED = "be a date such as 2026-11-01, or a number of days back from today such as 7d";

/** The query of GET /v1/usage. */
export type UsageQuery = Static<typeof UsageQuery>;
export const UsageQuery = Type.Object({
  by: Type.Optional(oneOf(groupings, { description: "The group of each row.", default: "day" })),
  since: day(
    `The first day. The default is ${DAYS_DEFAULT} days before \`until\`, in a report by hour ${HOURLY_DAYS_MAX}.`,
  ),
  until: day("The day after the last day. The default is tomorrow."),
});

/** One row of the report. It has `day`, `hour` and `model`, as the query asks. */
const UsageRow = Type.Object({
  day: Type.Optional(
    Type.String({ description: "A date in UTC. Only in a report by day.", format: "date" }),
  ),
  hour: Type.Optional(
    Type.String({
      description: "The start of an hour in UTC, in ISO 8601. Only in a report by hour.",
      format: "date-time",
    }),
  ),
  model: Type.Optional(
    Type.String({ description: "The id of a model. Only in a report by model." }),
  ),
  requests: Type.Integer({
    minimum: 0,
    description: "The number of requests, failed ones included.",
  }),
  ...countFields,
  cost_rub: Roubles,
  refunded_rub: Roubles,
  failed: Type.Integer({ minimum: 0, description: "The number of failed requests." }),
});

/** The answer of GET /v1/usage. */
export type UsageReport = Static<typeof UsageReport>;
export const UsageReport = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(UsageRow),
});

/** Sums over the requests of one group. Amounts are nano-roubles. */
export interface UsageSums extends Usage {
  group: string;
  requests: number;
  cost: bigint;
  failed: number;
  refunded: bigint;
}

/** The fields of a row that name its group. */
export interface UsageGroup {
  readonly day?: string;
  readonly hour?: string;
  readonly model?: string;
}

/** One row of a usage report. `group` has the fields that name its group. */
export function usageForm<Group extends object>(group: Group, sums: Omit<UsageSums, "group">) {
  return {
    ...group,
    requests: sums.requests,
    ...countsOf(sums),
    cost_rub: formatRoubles(sums.cost),
    failed: sums.failed,
    refunded_rub: formatRoubles(sums.refunded),
  };
}

/**
 * The days in UTC that a query asks for. A report covers whole days, because the store has sums of whole days.
 * Throws ApiError 400.
 */
export function usageDays(query: UsageQuery, nowMs: number): DaySpan {
  const today = Math.floor(nowMs / DAY_MS);
  const to = dayOf("until", query, today) ?? today + 1;
  const isHourly = isByHour(query);
  const from = dayOf("since", query, today) ?? to - (isHourly ? HOURLY_DAYS_MAX : DAYS_DEFAULT);
  if (from >= to) throw invalidRequest("since must be earlier than until");
  if (isHourly && to - from > HOURLY_DAYS_MAX) {
    throw invalidRequest(
      `since and until must be at most ${HOURLY_DAYS_MAX} days apart in a report by hour`,
    );
  }
  if (to - from > USAGE_DAYS_MAX) {
    throw invalidRequest(`since and until must be at most ${USAGE_DAYS_MAX} days apart`);
  }
  return { from, to };
}

/** The group of a report's row that sums a period (a date, or the start of an hour) and a model. */
export function usageGroup(
  { by = "day" }: UsageQuery,
  { period, model }: { readonly period: string; readonly model: string },
): UsageGroup {
  if (by === "model") return { model };
  const time = by.startsWith("hour") ? { hour: period } : { day: period };
  return by.endsWith("model") ? { ...time, model } : time;
}

export function isByHour({ by }: UsageQuery): boolean {
  return by === "hour" || by === "hour,model";
}

/** The day of a parameter; undefined if it is absent. Throws ApiError 400 for a date that does not exist. */
function dayOf(name: "since" | "until", query: UsageQuery, today: number): number | undefined {
  const text = query[name];
  if (text === undefined) return undefined;
  const [, daysBack] = DAYS_BACK.exec(text) ?? [];
  if (daysBack !== undefined) return today - Number(daysBack);
  const atMs = midnightOf(text);
  if (atMs !== undefined) return atMs / DAY_MS;
  throw invalidRequest(`${name} must ${DAY_EXPECTED}`);
}

function day(description: string) {
  return Type.Optional(
    Type.String({
      description: `${description} A date in UTC, or a number of days back from today.`,
      pattern: String.raw`^(\d{4}-\d{2}-\d{2}|\d{1,5}d)$`,
      patternMessage: DAY_EXPECTED,
      examples: ["2026-11-01", "7d"],
    } satisfies Annotations & Record<string, unknown>),
  );
}
