import type { Database } from "bun:sqlite";

const KEPT_SINCE = `SELECT CASE WHEN max(kept_since) > (SELECT max(at) FROM requests)
    THEN coalesce((SELECT min(at) FROM requests WHERE status <> 'running'), max(kept_since))
    ELSE max(kept_since) END AS since
  FROM retention`;

/**
 * Since when requests are told one by one: before that, some may be left in the totals of their day only. A fold
 * of an earlier version, by a clock that was ahead, noted a time that no request has reached. The oldest one that
 * has ended then tells it: what was folded is older, for the oldest go first.
 */
export function keptSince(sqlite: Database): bigint {
  return sqlite.query<{ since: bigint | null }, []>(KEPT_SINCE).get()?.since ?? 0n;
}
