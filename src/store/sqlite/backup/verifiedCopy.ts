import type { Database } from "bun:sqlite";
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { type Actor, adminLog, newRowId } from "../../schema/schema.ts";
import {
  withStoreErrors,
  connect,
  connectReadOnly,
  journalMode,
  createDatabaseFile,
  isDamage,
  sqliteFault,
  type SqliteConnection,
  type SqliteFault,
} from "../sqlite.ts";
import { DamagedStoreError, StoreError } from "../../storeError.ts";
import { auditStore, fileProblems } from "../audit/auditSqlite.ts";
import { refuseBeforeFirst } from "../../schema/migrationFiles.ts";
import { migrateCopy, readSchemaVersion } from "../schema/migrations.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import { errorCode } from "../../../lib/systemError.ts";

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
/** This version cannot audit an older database before it is migrated. */
const OLDER_DATABASE_SUBJECT: Subject = {
  name: "the database",
  advice: "`tollgate audit` of the version before shows all of them",
};
const CHUNK_BYTES = 1024 * 1024;

/**
 * Writes a snapshot of the database into the empty file `copy` and verifies it. A gateway may write meanwhile and does
 * not wait. Keeps the schema, also one of an earlier version. `onCheck` is told how many requests of such a copy are
 * migrated for its audit. Rejects with StoreError.
 */
export async function copyDatabase(
  database: string,
  copy: string,
  onCheck?: OnCheck,
): Promise<VerifiedCopy> {
  const age = vacuumInto(database, copy);
  if (age === "current") return await verifySnapshot(copy);
  // The audit needs this version's schema, so a second copy is migrated.
  const trial = migrationTrialPath(copy);
  createDatabaseFile(trial);
  return await copyBackup(copy, trial, undefined, OLDER_DATABASE_SUBJECT, onCheck);
}

type OnCheck = (done: number, total: number) => void;

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

async function verifySnapshot(copy: string): Promise<VerifiedCopy> {
  let sqlite: Database | undefined;
  try {
    sqlite = connectReadOnly(copy);
    return await verify(sqlite, DATABASE_SUBJECT);
  } catch (error) {
    throw toCopyError(error, copy, copy);
  } finally {
    sqlite?.close();
  }
}

/**
 * Copies a backup into the empty file `copy`, migrates the copy and verifies it. With an actor it adds the restore to
 * the admin log. The copy is one file without a WAL. The backup is only read. Rejects with StoreError.
 */
export async function copyBackup(
  backup: string,
  copy: string,
  actor: Actor | undefined,
  subject: Subject = { name: backup, advice: "name another backup" },
  onCheck?: OnCheck,
): Promise<VerifiedCopy> {
  copyContent(backup, copy);
  let connection: SqliteConnection | undefined;
  try {
    connection = connect(copy, "power");
    if (schemaAge(connection, backup) === "older")
      await migrateVerified(connection, subject, onCheck);
    const verified = await verify(connection.sqlite, subject);
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

/** The caller verifies the copy afterwards. */
async function migrateVerified(
  connection: SqliteConnection,
  subject: Subject,
  onCheck: OnCheck | undefined,
): Promise<void> {
  const { sqlite } = connection;
  const { applied } = readSchemaVersion(sqlite);
  refuseProblems(fileProblems(sqlite), `the file of ${subject.name} is damaged`, subject);
  refuseSchemaProblems(schemaProblems(sqlite, applied), subject);
  await migrateCopy(connection, {
    schemaProblems: () => [],
    audit: async () => [],
    refuse: (problems) => refuseProblems(problems, verdictOf(subject), subject),
    onProgress: onCheck && (({ copied, total }) => onCheck(copied, total)),
  });
}

async function verify(sqlite: Database, subject: Subject): Promise<VerifiedCopy> {
  refuseSchemaProblems(schemaProblems(sqlite), subject);
  // A damaged setting does not prevent a backup. `audit` and `doctor` report it.
  const { problems, accounts, requests } = await auditStore(
    { sqlite },
    { atRest: false, moneyOnly: true },
  );
  refuseProblems(problems, verdictOf(subject), subject);
  return { accounts, requests, lastRows: lastRows(sqlite) };
}

function refuseSchemaProblems(problems: readonly string[], subject: Subject): void {
  refuseProblems(problems, `the schema of ${subject.name} is not tollgate's`, subject);
}

function verdictOf({ name }: Subject): string {
  return `the records of ${name} do not agree`;
}

function refuseProblems(problems: readonly string[], verdict: string, { advice }: Subject): void {
  const [first] = problems;
  if (first === undefined) return;
  throw new DamagedStoreError(
    `${verdict} (problems: ${problems.length}, the first: ${first}): ${advice}`,
  );
}

function logRestore({ db }: SqliteConnection, { name, command, at }: Actor, backup: string): void {
  const row = { id: newRowId, at, actor: name, command, subject: backup, detail: null };
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

/** Throws StoreError for another program's database, or one of a newer version or of one before 0.2.0. */
function schemaAge({ sqlite }: SqliteConnection, path: string): "older" | "current" {
  const { applied, known } = readSchemaVersion(sqlite);
  if (applied <= 0) throw new StoreError(`not a database of tollgate: ${path}; name another file`);
  refuseBeforeFirst("sqlite", applied);
  if (applied > known)
    throw new StoreError(`written by a newer version of tollgate: ${path}; use that version`);
  return applied < known ? "older" : "current";
}

/** Names the file that was read, not the temporary copy. */
function toCopyError(error: unknown, source: string, copy: string): unknown {
  const fault = sqliteFault(error);
  if (fault === undefined) return error;
  // The failed migration of the copy: its message says what is wrong with the records.
  if (fault === "constraint" && error instanceof StoreError) return error;
  const cause = error instanceof StoreError ? error.cause : error;
  const Kind = isDamage(error) ? DamagedStoreError : StoreError;
  return new Kind(copyErrorMessage(fault, { source, copy, code: errorCode(cause) }), {
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

/** Where a database ends. */
export interface LastRows {
  requestId: bigint;
  adminLogId: bigint;
  accounts: ReadonlyMap<bigint, LastOfAccount>;
}

/** The last row of an account's history; the number 0 without one. */
interface LastOfAccount {
  seq: bigint;
  text: string;
}

/** The numbers of rows that only the newer of two databases has. */
export interface NewerRows {
  /** Includes folded requests with a charge. Folded requests without one leave no row. */
  requests: number;
  /** Charges, and what commands have changed. */
  ledgerRows: number;
  /** Changes by commands, also credits, debits and refunds. */
  adminLogRows: number;
}

export function lastRows(sqlite: Database): LastRows {
  const lastId = (table: string): bigint =>
    readInteger(sqlite, `SELECT coalesce(max(id), 0) AS value FROM ${table}`);
  const accounts = accountEnds(sqlite).map(
    ({ id, seq }) => [id, { seq, text: historyText(sqlite, id, seq) }] as const,
  );
  return {
    requestId: lastId("requests"),
    adminLogId: lastId("admin_log"),
    accounts: new Map(accounts),
  };
}

/** Undefined if a history does not continue after `last`, or the database cannot be read. */
export function rowsNewerThan(sqlite: Database, last: LastRows): NewerRows | undefined {
  const rowsAfter = (table: string, id: bigint): number =>
    Number(readInteger(sqlite, `SELECT count(*) AS value FROM ${table} WHERE id > ?`, id));
  try {
    for (const [id, { seq, text }] of last.accounts)
      if (historyText(sqlite, id, seq) !== text) return undefined;
    const rows = { requests: rowsAfter("requests", last.requestId), ledgerRows: 0 };
    for (const { id, seq } of accountEnds(sqlite)) {
      const before = last.accounts.get(id)?.seq ?? 0n;
      rows.ledgerRows += Number(seq - before);
      rows.requests += Number(readInteger(sqlite, FOLDED_CHARGES, id, before));
    }
    return { ...rows, adminLogRows: rowsAfter("admin_log", last.adminLogId) };
  } catch (error) {
    if (sqliteFault(error) === undefined) throw error;
    return undefined;
  }
}

const FOLDED_CHARGES =
  "SELECT count(*) AS value FROM ledger WHERE account_id = ? AND seq > ? AND kind = 'charge'";

function accountEnds(sqlite: Database): { id: bigint; seq: bigint }[] {
  return sqlite
    .query<{ id: bigint; seq: bigint }, []>("SELECT id, ledger_seq AS seq FROM accounts")
    .all();
}

/** A row of an account's history. It stays the same when its request is folded. Without a row the account's name. */
function historyText(sqlite: Database, accountId: bigint, seq: bigint): string {
  const query = `SELECT json_array(name, (
      SELECT json_array(kind, amount, balance_after, ref) FROM history WHERE account_id = ?1 AND seq = ?2)) AS text
    FROM accounts WHERE id = ?1`;
  return sqlite.query<{ text: string }, bigint[]>(query).get(accountId, seq)?.text ?? "";
}

function readInteger(sqlite: Database, query: string, ...values: bigint[]): bigint {
  return sqlite.query<{ value: bigint }, bigint[]>(query).get(...values)?.value ?? 0n;
}
