import type { Database } from "bun:sqlite";
import { sqliteFault } from "./sqlite.ts";

/** How far the books of a store go: the ids of its last rows, and the last row of its ledger as text. */
export interface BooksEnd {
  request: bigint;
  ledger: bigint;
  adminLog: bigint;
  lastRow: string;
}

/** What one store has beyond another one. */
export interface Newer {
  /** With those that were charged and folded into the totals since; one that was not charged is gone without a trace. */
  requests: number;
  ledgerRows: number;
  /** Changes that people made by commands, the bookings among them. */
  adminLogRows: number;
}

const FOLDED_CHARGES = `SELECT count(*) AS value FROM ledger WHERE id > ? AND kind = 'charge'
  AND NOT EXISTS (SELECT 1 FROM requests WHERE public_id = substr(ledger.ref, 5))`;
const LEDGER_ROW = "json_array(account_id, seq, kind, amount, balance_after, ref, at)";

export function booksEnd(sqlite: Database): BooksEnd {
  const request = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM requests");
  const ledger = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM ledger");
  const adminLog = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM admin_log");
  return { request, ledger, adminLog, lastRow: ledgerRow(sqlite, ledger) };
}

/**
 * What this store has beyond that end; undefined where its ledger did not go on from there, and where it cannot
 * be read, or is none.
 */
export function newerThan(sqlite: Database, end: BooksEnd): Newer | undefined {
  const after = (table: string, id: bigint): number =>
    Number(number(sqlite, `SELECT count(*) AS value FROM ${table} WHERE id > ?`, id));
  try {
    if (ledgerRow(sqlite, end.ledger) !== end.lastRow) return undefined;
    return {
      requests: after("requests", end.request) + Number(number(sqlite, FOLDED_CHARGES, end.ledger)),
      ledgerRows: after("ledger", end.ledger),
      adminLogRows: after("admin_log", end.adminLog),
    };
  } catch (error) {
    if (sqliteFault(error) === undefined) throw error;
    return undefined;
  }
}

/** Empty where there is no such row. */
function ledgerRow(sqlite: Database, id: bigint): string {
  const query = `SELECT ${LEDGER_ROW} AS text FROM ledger WHERE id = ?`;
  return sqlite.query<{ text: string }, [bigint]>(query).get(id)?.text ?? "";
}

function number(sqlite: Database, query: string, ...values: bigint[]): bigint {
  return sqlite.query<{ value: bigint }, bigint[]>(query).get(...values)?.value ?? 0n;
}
