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
