import { DAY_MS, midnightOf, type DaySpan } from "../lib/time.ts";
import { invalidRequest } from "./errors.ts";

/** What a client may sum its usage up by. */
export const usageQueryGroupings = ["day", "model"] as const;

/** A checked query of /v1/usage. */
export interface UsageQuery {
  readonly by: (typeof usageQueryGroupings)[number];
  readonly days: DaySpan;
}

const PARAMETERS = ["by", "since", "until"] as const;
/** How far back a report goes that does not say when it begins. */
export const USAGE_DAYS_DEFAULT = 30;
/** So many days one report covers at most. */
export const USAGE_DAYS_MAX = 366;
const DAYS_BACK = /^(\d{1,5})d$/;

/**
 * Reads the query of /v1/usage: `by`, and `since` and `until`, which are dates, or whole days back from
 * today as UTC has it. Without `until` today is the last day, without `since` there are 30 of them.
 * Only whole days, and so many at most: of each day the books have the sums, whatever it was asked for.
 * Throws ApiError 400.
 */
export function checkUsageQuery(query: URLSearchParams, nowMs: number): UsageQuery {
  const names = [...query.keys()];
  const accepted: readonly string[] = PARAMETERS;
  if (!names.every((name) => accepted.includes(name))) {
    throw invalidRequest("only the parameters by, since and until are accepted");
  }
  const repeated = PARAMETERS.find((name) => query.getAll(name).length > 1);
  if (repeated !== undefined) throw invalidRequest(`${repeated} stands twice`);
  const asked = query.get("by") ?? "day";
  const by = usageQueryGroupings.find((grouping) => grouping === asked);
  if (by === undefined) {
    throw invalidRequest(`by must be one of: ${usageQueryGroupings.join(", ")}`);
  }
  const today = Math.floor(nowMs / DAY_MS);
  const to = dayOf("until", query, today) ?? today + 1;
  const from = dayOf("since", query, today) ?? to - USAGE_DAYS_DEFAULT;
  if (from >= to) throw invalidRequest("since must be earlier than until");
  if (to - from > USAGE_DAYS_MAX) {
    throw invalidRequest(`since and until must be at most ${USAGE_DAYS_MAX} days apart`);
  }
  return { by, days: { from, to } };
}

/** The day that a parameter names; undefined where it is absent. */
function dayOf(name: "since" | "until", query: URLSearchParams, today: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const [, daysBack] = DAYS_BACK.exec(text) ?? [];
  if (daysBack !== undefined) return today - Number(daysBack);
  const atMs = midnightOf(text);
  if (atMs !== undefined) return atMs / DAY_MS;
  throw invalidRequest(
    `${name} must be a date such as 2026-11-01, or a number of days back from today such as 7d`,
  );
}
