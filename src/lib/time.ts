/** Of a Date, before and after 1970: https://tc39.es/ecma262/#sec-time-values-and-time-range */
const TIME_MAX_MS = 8.64e15;

/** ISO 8601 in UTC, to the millisecond: for scripts and clients. A time that is none is shown as the nearest one. */
export function isoTime(atMs: number): string {
  const shownMs = Math.min(Math.max(atMs, -TIME_MAX_MS), TIME_MAX_MS);
  return new Date(shownMs).toISOString();
}

/** The same or null. */
export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}

/** A day of UTC, which has no leap seconds as computers count. */
export const DAY_MS = 86_400_000;

/** Whole days since 1970 in UTC, `to` left out. */
export interface DaySpan {
  readonly from: number;
  readonly to: number;
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** The first moment, in UTC, of a date such as `2026-11-01`; undefined for any other text, and for a day that no month has. */
export function midnightOf(date: string): number | undefined {
  const atMs = DATE.test(date) ? Date.parse(`${date}T00:00:00Z`) : Number.NaN;
  // A day that its month does not have would silently be one of the next month.
  return Number.isFinite(atMs) && new Date(atMs).toISOString().startsWith(date) ? atMs : undefined;
}
