/** ISO 8601 in UTC, to the millisecond: for scripts. */
export function isoTime(atMs: number): string {
  return new Date(atMs).toISOString();
}

/** The same or null. */
export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}

/** ISO 8601 in UTC, to the second: for people. */
export function shortTime(atMs: number): string {
  return `${isoTime(atMs).slice(0, "2026-01-01T00:00:00".length)}Z`;
}
