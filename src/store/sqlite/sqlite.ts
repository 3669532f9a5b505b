import { Database } from "bun:sqlite";
import { drizzle, type BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
import { accessSync, closeSync, constants, existsSync, openSync, statSync } from "node:fs";
import type { Connection } from "../connection.ts";
import { errorCode, fileErrorReason } from "../../lib/systemError.ts";
import { DamagedStoreError, StoreError } from "../storeError.ts";
import {
  findOrphanedWal,
  isNotRegularFile,
  missingFolderProblem,
  NAME_ANOTHER,
  OWNER_ONLY,
  storeFiles,
} from "./databaseFile.ts";
import { SqliteQueries } from "./queries.ts";

/** `power`: a commit survives a power cut. `process`: it survives `kill -9` only. */
export type Durability = "power" | "process";

/**
 * One connection: `queries` for what both engines can do, `sqlite` for the rest, and `db` to build statements for it.
 */
export interface SqliteConnection {
  readonly queries: Connection;
  readonly db: BunSQLiteDatabase;
  readonly sqlite: Database;
  readonly file: FileIdentity;
}

/** How long a connection waits for another process that writes, before it fails with SQLITE_BUSY. */
export const BUSY_TIMEOUT_MS = 5000;
const WAL_MODE_POLL_MS = 5;
/** The WAL keeps this size on the disk after a burst: writing into an existing file is faster. */
const WAL_BYTES_KEPT = 16 * 1024 * 1024;

/**
 * Opens the database and creates it if it is absent, readable by its owner alone. Integers are read as bigint.
 * Throws StoreError.
 */
export function connect(path: string, durability: Durability): SqliteConnection {
  refuseOrphanedWal(path);
  let sqlite: Database;
  let file: FileIdentity;
  try {
    // SQLite gives -wal and -shm the mode of the database.
    createDatabaseFile(path);
    file = identifyFile(path);
    sqlite = new Database(path, {
      readwrite: true,
      create: true,
      safeIntegers: true,
      strict: true,
    });
  } catch (cause) {
    throw notWritableError(path, cause);
  }
  try {
    prepareConnection(sqlite, durability);
    // A restore replaced the file meanwhile. Our WAL would lie beside the new database.
    if (file.isReplaced()) throw new StoreError(`database was just replaced: ${path}; try again`);
  } catch (cause) {
    sqlite.close();
    throw toStoreError(path, cause);
  }
  return { queries: new SqliteQueries(sqlite), db: drizzle({ client: sqlite }), sqlite, file };
}

/** Throws StoreError for an orphaned WAL: opening the database would delete it, with the last commits. */
export function refuseOrphanedWal(path: string): void {
  const wal = findOrphanedWal(path);
  if (wal === undefined) return;
  throw new StoreError(
    `the database ${path} is missing or empty, but its log ${wal} is not: put the database back beside its log, or move the log away to start without the changes in it`,
  );
}

/** Opens a file that no process writes to. Changes nothing and leaves no file beside it. Throws SQLite's errors. */
export function connectReadOnly(path: string): Database {
  const sqlite = new Database(path, { readonly: true, safeIntegers: true, strict: true });
  setUntrustedFilePragmas(sqlite);
  return sqlite;
}

/**
 * Creates an empty file for its owner alone if there is none. Throws when the file is not writable. An existing file
 * is not opened: closing it would release all POSIX locks that this process has on it
 * (https://www.sqlite.org/howtocorrupt.html, 2.2).
 */
export function createDatabaseFile(path: string): void {
  if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
  else closeSync(openSync(path, "a", OWNER_ONLY));
}

/**
 * `full`: no space on the disk; `busy`: another process has the lock; `damaged`: not a database, or a corrupt one;
 * `io`: the disk failed; `unwritable`: no permission to write or open it; `constraint`: a constraint or trigger
 * refused the row; `other`: any other SQLite error.
 */
export type SqliteFault =
  | "full"
  | "busy"
  | "damaged"
  | "io"
  | "unwritable"
  | "constraint"
  | "other";

/** The prefixes of the error codes. The first match counts. */
const FAULT_CODES: readonly (readonly [SqliteFault, readonly string[]])[] = [
  // Before `io`: a full disk fails first at growing the WAL index (-shm), with this code.
  ["full", ["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]],
  ["busy", ["SQLITE_BUSY"]],
  ["damaged", ["SQLITE_NOTADB", "SQLITE_CORRUPT"]],
  ["io", ["SQLITE_IOERR"]],
  ["unwritable", ["SQLITE_READONLY", "SQLITE_CANTOPEN"]],
  ["constraint", ["SQLITE_CONSTRAINT"]],
  ["other", ["SQLITE_"]],
];

/** The SQLite fault behind an error or behind a StoreError; undefined if SQLite did not cause it. */
export function sqliteFault(error: unknown): SqliteFault | undefined {
  const code = errorCode(error instanceof StoreError ? error.cause : error) ?? "";
  return FAULT_CODES.find(([, prefixes]) =>
    prefixes.some((prefix) => code.startsWith(prefix)),
  )?.[0];
}

/** Whether a database is damaged, or its disk failed. */
export function isDamage(error: unknown): boolean {
  const fault = sqliteFault(error);
  return error instanceof DamagedStoreError || fault === "damaged" || fault === "io";
}

function prepareConnection(sqlite: Database, durability: Durability): void {
  setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
  setWalMode(sqlite);
  sqlite.run(`PRAGMA synchronous = ${durability === "power" ? "FULL" : "NORMAL"}`);
  sqlite.run(`PRAGMA journal_size_limit = ${WAL_BYTES_KEPT}`);
  sqlite.run("PRAGMA foreign_keys = ON");
  // Without it INSERT OR REPLACE removes rows and skips the triggers that forbid it.
  sqlite.run("PRAGMA recursive_triggers = ON");
  setUntrustedFilePragmas(sqlite);
}

/**
 * If several processes switch a new database to WAL at once, SQLite refuses some of them without the busy timeout,
 * to avoid a deadlock (https://www.sqlite.org/c3ref/busy_handler.html). This tries again.
 */
function setWalMode(sqlite: Database): void {
  const deadlineMs = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      sqlite.run("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      if (sqliteFault(error) !== "busy" || performance.now() > deadlineMs) throw error;
    }
    Bun.sleepSync(WAL_MODE_POLL_MS);
  }
}

/** Sets how long this connection waits for a lock. */
export function setBusyTimeout(sqlite: Database, ms: number): void {
  sqlite.run(`PRAGMA busy_timeout = ${ms}`);
}

/** `wal` or `delete`. With `wanted` SQLite changes it first, if no other connection has the database open. */
export function journalMode(sqlite: Database, wanted?: "delete"): string | undefined {
  const pragma = `PRAGMA journal_mode${wanted === undefined ? "" : ` = ${wanted}`}`;
  return sqlite.query<{ journal_mode: string }, []>(pragma).get()?.journal_mode;
}

/** https://www.sqlite.org/security.html: the file may come from anyone. */
export function setUntrustedFilePragmas(sqlite: Database): void {
  sqlite.run("PRAGMA trusted_schema = OFF");
  sqlite.run("PRAGMA cell_size_check = ON");
  sqlite.run("PRAGMA mmap_size = 0");
}

/**
 * An SQLite error about the file at `path` as a StoreError that tells what to do. Returns any other error as it is,
 * also a failed constraint, which is a bug of ours.
 */
export function toStoreError(path: string, error: unknown): unknown {
  const fault = sqliteFault(error);
  if (error instanceof StoreError || fault === undefined || fault === "constraint") return error;
  if (fault === "unwritable") return notWritableError(path, error);
  return new StoreError(faultMessage(path, fault, error), { cause: error });
}

/** Tells why the database at `path`, or its lock, cannot be created or written, and what to do. */
export function notWritableError(path: string, cause: unknown): StoreError {
  return new StoreError(missingFolderProblem(path) ?? notWritableMessage(path, cause), { cause });
}

function notWritableMessage(path: string, cause: unknown): string {
  if (sqliteFault(cause) === "full") return diskFullMessage(path);
  if (isNotRegularFile(path)) return notFileMessage(path);
  return `database is not writable: ${path} (${fileErrorReason(cause)}); run as its owner, mount its disk writable, write the unit of the service again (remove it, then \`tollgate service install\` and \`systemctl daemon-reload\`), or ${NAME_ANOTHER}`;
}

export function notFileMessage(path: string): string {
  return `database is no file: ${path}; ${NAME_ANOTHER}`;
}

function diskFullMessage(path: string): string {
  return `database has no room left on its disk: ${path}`;
}

function faultMessage(path: string, fault: SqliteFault, error: unknown): string {
  if (fault === "damaged")
    return `database is damaged or not a database: ${path}; it was not changed, \`tollgate restore FILE\` puts a backup in its place`;
  if (fault === "busy") return `database is locked by another process: ${path}; try again`;
  if (fault === "full") return diskFullMessage(path);
  const failure = `database cannot be used: ${path} (${errorCode(error)})`;
  if (fault === "io")
    return `${failure}; its disk failed (see \`dmesg\`), or a file beside it is not a regular file: repair that and try again`;
  return `${failure}; \`tollgate doctor\` shows what is wrong with it, \`tollgate restore FILE\` puts a backup in its place`;
}

/** Which file a path named when it was opened. */
export interface FileIdentity {
  /** True when the path names another file, or none. What is written then is lost. */
  isReplaced(): boolean;
}

/** Call it before the file is opened: while `isReplaced` is false, the opened file is the one at the path. */
export function identifyFile(path: string): FileIdentity {
  const opened = identityOf(path);
  return {
    isReplaced() {
      try {
        return identityOf(path) !== opened;
      } catch (error) {
        const code = errorCode(error);
        return code === "ENOENT" || code === "ENOTDIR";
      }
    },
  };
}

function identityOf(path: string): string {
  const { dev, ino } = statSync(path, { bigint: true });
  return `${dev}:${ino}`;
}

/** Runs `work`. An error of the operating system becomes a StoreError with the message `context: reason`. */
export function withStoreErrors<T>(context: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`${context}: ${fileErrorReason(cause)}`, { cause });
  }
}

/** How long a checkpoint waits for other programs that read the database. */
const READERS_WAIT_MS = 200;

/**
 * `empty`: the database file alone has all commits. `kept`: the WAL is still needed, because another program uses the
 * database or the disk is full. `failed`: the disk failed, and the connection must not be closed. No commit is lost:
 * the next process that opens the database reads the WAL too.
 */
type CheckpointResult = "empty" | "kept" | "failed";

/** Moves all commits from the WAL into the database and truncates the WAL. Never throws. */
export function checkpointWal({ sqlite }: SqliteConnection): CheckpointResult {
  try {
    setBusyTimeout(sqlite, READERS_WAIT_MS);
    const row = sqlite.query<{ busy: bigint }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return row?.busy === 0n ? "empty" : "kept";
  } catch (error) {
    const fault = sqliteFault(error);
    return fault === "full" || fault === "busy" ? "kept" : "failed";
  }
}

/** A checkpoint leaves some megabytes. Far more means that another program reads all the time. */
export const WAL_BYTES_MAX = 256 * 1024 * 1024;

/** The size of the WAL of the database at `path`; 0 if it is absent or cannot be seen. */
export function walSizeBytes(path: string): number {
  try {
    return statSync(storeFiles(path).writeAheadLog, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/** Returns a check that calls `warn` each time the WAL grows over the limit, and not again before it is below. */
export function createWalSizeWarning(
  readBytes: () => number,
  warn: (bytes: number) => void,
): () => void {
  let isOver = false;
  return () => {
    const bytes = readBytes();
    if (bytes > WAL_BYTES_MAX && !isOver) warn(bytes);
    isOver = bytes > WAL_BYTES_MAX;
  };
}
