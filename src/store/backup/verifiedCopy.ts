import type { Database } from "bun:sqlite";
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { type Actor, adminLog, newRowId } from "../schema/schema.ts";
import {
  withStoreErrors,
  connect,
  connectReadOnly,
  journalMode,
  createDatabaseFile,
  sqliteFault,
  StoreError,
  type Connection,
  type SqliteFault,
} from "../sqlite.ts";
import { auditStore } from "../audit/audit.ts";
import { fileProblems } from "../audit/integrity.ts";
import { readSchemaVersion, migrate } from "../schema/migrations.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import { errorCode } from "../../lib/systemError.ts";

/** A copy of a store of which the file, the schema and the books are in order. */
export interface VerifiedCopy {
  accounts: number;
  requests: number;
  end: LastRows;
}

/** What is verified, as a person knows it, and what to do where it is not in order. */
interface Subject {
  readonly name: string;
  readonly advice: string;
}

const theDatabase: Subject = {
  name: "the database",
  advice: "tollgate audit shows all of them",
};
const PIECE_BYTES = 1024 * 1024;

/**
 * Writes the store as it is at one moment into the file at `copy`, which is there and empty, and verifies it.
 * A gateway may write meanwhile: it waits for nothing, and what it commits from then on is not in the copy.
 * The store itself stays as it is, also in a schema of an earlier version. Throws StoreError.
 */
export function copyDatabase(database: string, copy: string): VerifiedCopy {
  const age = vacuumInto(database, copy);
  if (age === "current") return verifySnapshot(copy);
  // The rules of the audit are those of this version's schema.
  const tracker = migrationTrialPath(copy);
  createDatabaseFile(tracker);
  return copyBackup(copy, tracker, undefined, theDatabase);
}

/** Where a copy of an earlier version's schema is brought to this version's to be audited. Of no further use. */
export function migrationTrialPath(copy: string): string {
  return `${copy}.trial`;
}

function vacuumInto(database: string, copy: string): "older" | "current" {
  const connection = connect(database, "process");
  try {
    const age = ageOf(connection, database);
    connection.sqlite.run("VACUUM INTO ?", [copy]);
    return age;
  } catch (error) {
    throw explained(error, database, copy);
  } finally {
    connection.sqlite.close();
  }
}

function verifySnapshot(copy: string): VerifiedCopy {
  let sqlite: Database | undefined;
  try {
    sqlite = connectReadOnly(copy);
    return verify(sqlite, theDatabase);
  } catch (error) {
    throw explained(error, copy, copy);
  } finally {
    sqlite?.close();
  }
}

/**
 * Writes the backup's content into the file at `copy`, brings it to this version's schema, and verifies it. With an
 * actor the restore is entered in its admin log. The copy is one file that needs nothing beside it. The
 * backup is only read. Throws StoreError.
 */
export function copyBackup(
  backup: string,
  copy: string,
  actor: Actor | undefined,
  subject: Subject = { name: backup, advice: "name another backup" },
): VerifiedCopy {
  copyContent(backup, copy);
  let connection: Connection | undefined;
  try {
    connection = connect(copy, "power");
    if (ageOf(connection, backup) === "older") {
      requireNone(
        fileProblems(connection.sqlite),
        `the file of ${subject.name} is damaged`,
        subject,
      );
      migrate(connection, () => true);
    }
    const verified = verify(connection.sqlite, subject);
    if (actor) logRestore(connection, actor, backup);
    // Out of the mode in which a log beside the file is a part of it.
    if (journalMode(connection.sqlite, "delete") !== "delete")
      throw new StoreError("the copy cannot be finished");
    return verified;
  } catch (error) {
    throw explained(error, subject.name, copy);
  } finally {
    connection?.sqlite.close();
  }
}

function verify(sqlite: Database, subject: Subject): VerifiedCopy {
  requireNone(schemaProblems(sqlite), `the schema of ${subject.name} is not tollgate's`, subject);
  // One odd setting of one key must keep nobody from a backup: the audit and the doctor name it.
  const { problems, accounts, requests } = auditStore(
    { sqlite },
    { atRest: false, moneyOnly: true },
  );
  requireNone(problems, `the books of ${subject.name} do not add up`, subject);
  return { accounts, requests, end: lastRows(sqlite) };
}

function requireNone(problems: readonly string[], verdict: string, { advice }: Subject): void {
  const [first] = problems;
  if (first === undefined) return;
  throw new StoreError(`${verdict} (problems: ${problems.length}, the first: ${first}): ${advice}`);
}

function logRestore({ db }: Connection, { name, at }: Actor, backup: string): void {
  const row = { id: newRowId, at, actor: name, command: "restore", subject: backup, detail: null };
  db.insert(adminLog).values(row).run();
}

/** Not by the system's copy: that gives the copy the mode of the other file. */
function copyContent(from: string, to: string): void {
  const source = withStoreErrors(`cannot read ${from}`, () => openSync(from, "r"));
  try {
    const target = openSync(to, "r+");
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    const read = () => withStoreErrors(`cannot read ${from}`, () => readSync(source, piece));
    for (let bytes = read(); bytes > 0; bytes = read())
      withStoreErrors(`cannot write into ${dirname(to)}`, () =>
        writeAll(target, piece.subarray(0, bytes)),
      );
    closeSync(target);
  } finally {
    closeSync(source);
  }
}

function writeAll(target: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;)
    written += writeSync(target, bytes, written, bytes.length - written);
}

/** Throws for what is no store, or one of a version that is yet to come. */
function ageOf({ sqlite }: Connection, path: string): "older" | "current" {
  const { applied, known } = readSchemaVersion(sqlite);
  if (applied <= 0) throw new StoreError(`not a store of tollgate: ${path}; name another file`);
  if (applied > known)
    throw new StoreError(`written by a newer version of tollgate: ${path}; use that version`);
  return applied < known ? "older" : "current";
}

/** The failure in words that name the file that was read, and not the copy, which nobody knows. */
function explained(error: unknown, source: string, copy: string): unknown {
  const fault = sqliteFault(error);
  if (fault === undefined) return error;
  const cause = error instanceof StoreError ? error.cause : error;
  return new StoreError(explanation(fault, { source, copy, code: errorCode(cause) }), { cause });
}

function explanation(
  fault: SqliteFault,
  { source, copy, code }: { source: string; copy: string; code: string | undefined },
): string {
  if (fault === "damaged")
    return `damaged or not a database: ${source}; restore a backup that is whole`;
  if (fault === "busy") return `locked by another process: ${source}; try again`;
  if (fault === "full") return `cannot write into ${dirname(copy)}: no room left on its disk`;
  if (fault === "other")
    return `not a store of the version that it says: ${source} (${code}); restore a backup that is whole`;
  return `cannot copy ${source}: SQLite reports ${code}; look at the disk, \`dmesg\` says how it failed`;
}

/** How far the books of a store go: the ids of its last rows, and the last row of its ledger as text. */
export interface LastRows {
  request: bigint;
  ledger: bigint;
  adminLog: bigint;
  lastRow: string;
}

/** What one store has beyond another one. */
export interface NewerRows {
  /** With those that were charged and folded into the totals since; one that was not charged is gone without a trace. */
  requests: number;
  ledgerRows: number;
  /** Changes that people made by commands, the bookings among them. */
  adminLogRows: number;
}

const FOLDED_CHARGES = `SELECT count(*) AS value FROM ledger WHERE id > ? AND kind = 'charge'
  AND NOT EXISTS (SELECT 1 FROM requests WHERE public_id = substr(ledger.ref, 5))`;
const LEDGER_ROW = "json_array(account_id, seq, kind, amount, balance_after, ref, at)";

export function lastRows(sqlite: Database): LastRows {
  const request = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM requests");
  const ledger = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM ledger");
  const adminLog = number(sqlite, "SELECT coalesce(max(id), 0) AS value FROM admin_log");
  return { request, ledger, adminLog, lastRow: ledgerRow(sqlite, ledger) };
}

/**
 * What this store has beyond that end; undefined where its ledger did not go on from there, and where it cannot
 * be read, or is none.
 */
export function rowsNewerThan(sqlite: Database, end: LastRows): NewerRows | undefined {
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
