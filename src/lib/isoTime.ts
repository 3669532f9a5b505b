/** ISO 8601 in UTC, to the millisecond: for scripts and clients. */
export function isoTime(atMs: number): string {
  return new Date(atMs).toISOString();
}

/** The same or null. */
export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}
