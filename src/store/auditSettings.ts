import type { AuditCheck } from "./auditChecks.ts";

/** The last millisecond of the year 9999: beyond it no command takes a time, and further on none can be shown. */
const TIME_MAX = 253_402_300_799_999;

/** Whether a column, which may be NULL, holds no number from 0 to that. */
function isOutside(column: string, max: number): string {
  return `${column} NOT BETWEEN 0 AND ${max}`;
}

/** JSON is asked for its parts only where it is JSON: else SQLite ends the whole query. */
const isNoModelList = `CASE WHEN models IS NULL THEN 0 WHEN NOT json_valid(models) THEN 1
  ELSE json_type(models) <> 'array' OR json_array_length(models) = 0
    OR EXISTS (SELECT 1 FROM json_each(models) WHERE type <> 'text') END`;

/** What a person said of keys and accounts: no sum depends on it, so that nothing else finds a bit of it that turned over. */
export const settingsChecks: readonly AuditCheck[] = [
  {
    problem: "its list of models is damaged",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE ${isNoModelList}`,
  },
  {
    problem: "has a limit or a budget that nobody can give it",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE budget < 0
      OR ${["requests_per_minute", "tokens_per_minute", "concurrent_requests"].map((limit) => isOutside(limit, Number.MAX_SAFE_INTEGER)).join(" OR ")}`,
  },
  {
    problem: "has a time that is none",
    query: `SELECT 'key ' || public_id AS subject FROM keys
      WHERE ${["created_at", "expires_at", "revoked_at", "last_used_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}
      UNION ALL SELECT 'account ' || name FROM accounts WHERE ${isOutside("created_at", TIME_MAX)}`,
  },
  {
    problem: "is neither enabled nor disabled",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE disabled NOT IN (0, 1)`,
  },
];
