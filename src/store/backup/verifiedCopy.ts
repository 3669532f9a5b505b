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

/** A copy whose file, schema and money records have no problem. */
export interface VerifiedCopy {
  accounts: number;
  requests: number;
  lastRows: LastRows;
}

/** The name of the verified file for error messages, and the advice if it has a problem. */
interface Subject {
  readonly name: string;
  readonly advice: string;
}

const DATABASE_SUBJECT: Subject = {
  name: "the database",
  advice: "tollgate audit shows all of them",
};
const CHUNK_BYTES = 1024 * 1024;

/**
 * Writes a snapshot of the database into the empty file `copy` and verifies it. A gateway may write meanwhile and does
 * not wait. Keeps the schema, also one of an earlier version. Throws StoreError.
 */
export function copyDatabase(database: string, copy: string): VerifiedCopy {
  const age = vacuumInto(database, copy);
  if (age === "current") return verifySnapshot(copy);
  // The audit needs this version's schema, so a second copy is migrated.
  const trial = migrationTrialPath(copy);
  createDatabaseFile(trial);
  return copyBackup(copy, trial, undefined, DATABASE_SUBJECT);
}

/** A copy of an earlier version's database is migrated here for its audit, and then discarded. */
export function migrationTrialPath(copy: string): string {
  return `${copy}.trial`;
}

function vacuumInto(database: string, copy: string): "older" | "current" {
  const connection = connect(database, "process");
  try {
    const age = schemaAge(connection, database);
    connection.sqlite.run("VACUUM INTO ?", [copy]);
    return age;
  } catch (error) {
    throw toCopyError(error, database, copy);
  } finally {
    connection.sqlite.close();
  }
}

function verifySnapshot(copy: string): VerifiedCopy {
  let sqlite: Database | undefined;
  try {
    sqlite = connectReadOnly(copy);
    return verify(sqlite, DATABASE_SUBJECT);
  } catch (error) {
    throw toCopyError(error, copy, copy);
  } finally {
    sqlite?.close();
  }
}

/**
 * Copies a backup into the empty file `copy`, migrates the copy and verifies it. With an actor it adds the restore to
 * the admin log. The copy is one file without a WAL. The backup is only read. Throws StoreError.
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
    if (schemaAge(connection, backup) === "older") {
      refuseProblems(
        fileProblems(connection.sqlite),
        `the file of ${subject.name} is damaged`,
        subject,
      );
      migrate(connection, {
        mayMigrate: () => true,
        // The copy is verified below.
        audit: () => [],
        refuse: (problems) => refuseProblems(problems, verdictOf(subject), subject),
      });
    }
    const verified = verify(connection.sqlite, subject);
    if (actor) logRestore(connection, actor, backup);
    // Out of WAL mode, so that no WAL belongs to the copy.
    if (journalMode(connection.sqlite, "delete") !== "delete")
      throw new StoreError("the copy cannot be finished");
    return verified;
  } catch (error) {
    throw toCopyError(error, subject.name, copy);
  } finally {
    connection?.sqlite.close();
  }
}

function verify(sqlite: Database, subject: Subject): VerifiedCopy {
  refuseProblems(
    schemaProblems(sqlite),
    `the schema of ${subject.name} is not tollgate's`,
    subject,
  );
  // A damaged setting does not prevent a backup. `audit` and `doctor` report it.
  const { problems, accounts, requests } = auditStore(
    { sqlite },
    { atRest: false, moneyOnly: true },
  );
  refuseProblems(problems, verdictOf(subject), subject);
  return { accounts, requests, lastRows: lastRows(sqlite) };
}

function verdictOf({ name }: Subject): string {
  return `the records of ${name} do not agree`;
}

function refuseProblems(problems: readonly string[], verdict: string, { advice }: Subject): void {
  const [first] = problems;
  if (first === undefined) return;
  throw new StoreError(`${verdict} (problems: ${problems.length}, the first: ${first}): ${advice}`);
}

function logRestore({ db }: Connection, { name, at }: Actor, backup: string): void {
  const row = { id: newRowId, at, actor: name, command: "restore", subject: backup, detail: null };
  db.insert(adminLog).values(row).run();
}

/** Not by `copyFile`: that also copies the mode of the file. */
function copyContent(from: string, to: string): void {
  const source = withStoreErrors(`cannot read ${from}`, () => openSync(from, "r"));
  try {
    const target = openSync(to, "r+");
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const read = () => withStoreErrors(`cannot read ${from}`, () => readSync(source, chunk));
    for (let bytes = read(); bytes > 0; bytes = read())
      withStoreErrors(`cannot write into ${dirname(to)}`, () =>
        writeAll(target, chunk.subarray(0, bytes)),
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

/** Throws StoreError for another program's database, or one of a newer version. */
function schemaAge({ sqlite }: Connection, path: string): "older" | "current" {
  const { applied, known } = readSchemaVersion(sqlite);
  if (applied <= 0) throw new StoreError(`not a database of tollgate: ${path}; name another file`);
  if (applied > known)
    throw new StoreError(`written by a newer version of tollgate: ${path}; use that version`);
  return applied < known ? "older" : "current";
}

/** Names the file that was read, not the temporary copy. */
function toCopyError(error: unknown, source: string, copy: string): unknown {
  const fault = sqliteFault(error);
  if (fault === undefined) return error;
  const cause = error instanceof StoreError ? error.cause : error;
  return new StoreError(copyErrorMessage(fault, { source, copy, code: errorCode(cause) }), {
    cause,
  });
}

function copyErrorMessage(
  fault: SqliteFault,
  { source, copy, code }: { source: string; copy: string; code: string | undefined },
): string {
  if (fault === "damaged") return `damaged or not a database: ${source}; restore an intact backup`;
  if (fault === "busy") return `locked by another process: ${source}; try again`;
  if (fault === "full") return `cannot write into ${dirname(copy)}: no room left on its disk`;
  if (fault === "other")
    return `not a database of the version that it names: ${source} (${code}); restore an intact backup`;
  return `cannot copy ${source}: SQLite reports ${code}; look at the disk, \`dmesg\` says how it failed`;
}

/** The ids of the last rows, and the last row of the ledger as text. */
export interface LastRows {
  requestId: bigint;
  ledgerId: bigint;
  adminLogId: bigint;
  ledgerText: string;
}

/** The numbers of rows that only the newer of two databases has. */
export interface NewerRows {
  /** Includes folded requests with a charge. Folded requests without one leave no row. */
  requests: number;
  ledgerRows: number;
  /** Changes by commands, also credits, debits and refunds. */
  adminLogRows: number;
}

const FOLDED_CHARGES = `SELECT count(*) AS value FROM ledger WHERE id > ? AND kind = 'charge'
  AND NOT EXISTS (SELECT 1 FROM requests WHERE public_id = substr(ledger.ref, 5))`;
const LEDGER_ROW = "json_array(account_id, seq, kind, amount, balance_after, ref, at)";

export function lastRows(sqlite: Database): LastRows {
  const lastId = (table: string): bigint =>
    readInteger(sqlite, `SELECT coalesce(max(id), 0) AS value FROM ${table}`);
  const ledgerId = lastId("ledger");
  return {
    requestId: lastId("requests"),
    ledgerId,
    adminLogId: lastId("admin_log"),
    ledgerText: ledgerText(sqlite, ledgerId),
  };
}

/** Undefined if the ledger does not continue after `last`, or the database cannot be read. */
export function rowsNewerThan(sqlite: Database, last: LastRows): NewerRows | undefined {
  const rowsAfter = (table: string, id: bigint): number =>
    Number(readInteger(sqlite, `SELECT count(*) AS value FROM ${table} WHERE id > ?`, id));
  try {
    if (ledgerText(sqlite, last.ledgerId) !== last.ledgerText) return undefined;
    return {
      requests:
        rowsAfter("requests", last.requestId) +
        Number(readInteger(sqlite, FOLDED_CHARGES, last.ledgerId)),
      ledgerRows: rowsAfter("ledger", last.ledgerId),
      adminLogRows: rowsAfter("admin_log", last.adminLogId),
    };
  } catch (error) {
    if (sqliteFault(error) === undefined) throw error;
    return undefined;
  }
}

/** Empty if there is no such row. */
function ledgerText(sqlite: Database, id: bigint): string {
  const query = `SELECT ${LEDGER_ROW} AS text FROM ledger WHERE id = ?`;
  return sqlite.query<{ text: string }, [bigint]>(query).get(id)?.text ?? "";
}

function readInteger(sqlite: Database, query: string, ...values: bigint[]): bigint {
  return sqlite.query<{ value: bigint }, bigint[]>(query).get(...values)?.value ?? 0n;
}
