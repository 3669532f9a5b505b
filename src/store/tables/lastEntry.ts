import { DAY_MS } from "../../lib/clock.ts";

/**
 * The later time `at` of the last credit, debit or refund and the end of the last request; null without any. By row id: a
 * clock that was ahead matters only until the next row. The charges in the ledger are of requests that were folded, so the
 * last row may be the charge of an old one.
 */
export const LAST_ENTRY = `SELECT max(at) AS at FROM (
  SELECT at FROM ledger
    WHERE id = (SELECT id FROM ledger WHERE kind <> 'charge' ORDER BY id DESC LIMIT 1)
  UNION ALL SELECT at + coalesce(duration_ms, 0) FROM requests
    WHERE id = (SELECT max(id) FROM requests)) AS entries`;

/** A time server may set the clock back by this much. */
const BACK_MS_MAX = 60_000;
/** Few gateways have no request for longer than this. */
const UNUSED_MS_MAX = 30 * DAY_MS;

/** Whether the clock is far behind the last entry or far ahead of it. Only a person can know whether the clock is wrong. */
export type ClockDoubt = "behind" | "ahead";

export function clockDoubt(nowMs: number, lastEntryMs: number): ClockDoubt | undefined {
  if (nowMs < lastEntryMs - BACK_MS_MAX) return "behind";
  return nowMs > lastEntryMs + UNUSED_MS_MAX ? "ahead" : undefined;
}
