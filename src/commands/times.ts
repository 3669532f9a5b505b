import { isoTime } from "../lib/isoTime.ts";

/** ISO 8601 in UTC, to the second: for people. */
export function shortTime(atMs: number): string {
  return `${isoTime(atMs).slice(0, "2026-01-01T00:00:00".length)}Z`;
}
