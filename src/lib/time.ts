/** The limit of a Date before and after 1970: https://tc39.es/ecma262/#sec-time-values-and-time-range */
const TIME_MAX_MS = 8.64e15;

/** ISO 8601 in UTC with milliseconds. A time outside the range of a Date becomes the nearest one. */
export function isoTime(atMs: number): string {
  const shownMs = Math.min(Math.max(atMs, -TIME_MAX_MS), TIME_MAX_MS);
  return new Date(shownMs).toISOString();
}

export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}

export const DAY_MS = 86_400_000;

/** Days since 1970 in UTC. `to` is exclusive. */
export interface DaySpan {
  readonly from: number;
  readonly to: number;
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** The start of a date such as `2026-11-01` in UTC, in ms; undefined for other text and for a day that does not exist. */
export function midnightOf(date: string): number | undefined {
  const atMs = DATE.test(date) ? Date.parse(`${date}T00:00:00Z`) : Number.NaN;
  // Date.parse turns February 30 into March 2.
  return Number.isFinite(atMs) && new Date(atMs).toISOString().startsWith(date) ? atMs : undefined;
}
