import { Database } from "bun:sqlite";
import { drizzle, type BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
import { accessSync, closeSync, constants, existsSync, openSync, statSync } from "node:fs";
import {
  isNotRegularFile,
  findOrphanedWal,
  missingFolderProblem,
  NAME_ANOTHER,
  OWNER_ONLY,
} from "./databaseFile.ts";
import { errorCode, fileErrorReason } from "../lib/systemError.ts";

/** `power`: a commit survives a power cut. `process`: it survives `kill -9` only. */
export type Durability = "power" | "process";

/** One connection: `db` for queries, `sqlite` for what Drizzle cannot say. */
export interface Connection {
  readonly db: BunSQLiteDatabase;
  readonly sqlite: Database;
  readonly file: FileIdentity;
}

/** How long a connection waits for another process that writes, before it fails with SQLITE_BUSY. */
export const BUSY_TIMEOUT_MS = 5000;
/** What a burst leaves of the log on the disk: the next one writes faster into a file that is there. */
const WAL_BYTES_KEPT = 16 * 1024 * 1024;

/** The store cannot be used; the message is one line that says what to do. */
export class StoreError extends Error {
  override readonly name = "StoreError";
}

/** Opens the file, made if absent and readable by its owner alone. Integers are read as bigint. */
export function connect(path: string, durability: Durability): Connection {
  refuseOrphanedWal(path);
  let sqlite: Database;
  let file: FileIdentity;
  try {
    // SQLite gives the files beside the database (-wal, -shm) the same mode.
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
    // A restore came between: what is opened is the file that it keeps, and beside it would lie the log of the new one.
    if (file.isReplaced()) throw new StoreError(`database was just replaced: ${path}; try again`);
  } catch (cause) {
    sqlite.close();
    throw toStoreError(path, cause);
  }
  return { db: drizzle({ client: sqlite }), sqlite, file };
}

/** Refuses to make a database beside the log of one that is away: the log has what was committed last. Throws StoreError. */
export function refuseOrphanedWal(path: string): void {
  const log = findOrphanedWal(path);
  if (log === undefined) return;
  throw new StoreError(
    `the database ${path} is away or empty, and its log ${log} is not: put the database back beside its log, or move the log away to go on without what is in it`,
  );
}

/** Opens a file that nobody writes to, changes nothing in it, and leaves nothing beside it. Throws what SQLite does. */
export function connectReadOnly(path: string): Database {
  const sqlite = new Database(path, { readonly: true, safeIntegers: true, strict: true });
  setUntrustedFilePragmas(sqlite);
  return sqlite;
}

/**
 * Makes an empty file for its owner alone where there is none. Throws where it may not be written. One that
 * is there is not opened: as POSIX has it, closing it would let go of every lock that this process has on it,
 * and a program with an older SQLite would take itself for the last one and remove the log that is written to
 * (https://www.sqlite.org/howtocorrupt.html, 2.2).
 */
export function createDatabaseFile(path: string): void {
  if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
  else closeSync(openSync(path, "a", OWNER_ONLY));
}

/**
 * `full`: there is no room; `busy`: another process has the database locked; `damaged`: it is no database, or not whole
 * any more; `io`: the disk failed; `notWritableError`: it may not be written, or not be opened; `constraint`: it refuses
 * what is written; `other`: whatever else SQLite reports.
 */
export type SqliteFault =
  | "full"
  | "busy"
  | "damaged"
  | "io"
  | "unwritable"
  | "constraint"
  | "other";

/** What the codes begin with. */
const FAULT_CODES: readonly (readonly [SqliteFault, readonly string[]])[] = [
  // Before `io`: the index of the log (-shm) is the first thing that a command writes, and has its own code for this.
  ["full", ["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]],
  ["busy", ["SQLITE_BUSY"]],
  ["damaged", ["SQLITE_NOTADB", "SQLITE_CORRUPT"]],
  ["io", ["SQLITE_IOERR"]],
  ["unwritable", ["SQLITE_READONLY", "SQLITE_CANTOPEN"]],
  ["constraint", ["SQLITE_CONSTRAINT"]],
  ["other", ["SQLITE_"]],
];

/** What SQLite, or a full disk, failed by, also where a StoreError says it in words; undefined for any other error. */
export function sqliteFault(error: unknown): SqliteFault | undefined {
  const code = errorCode(error instanceof StoreError ? error.cause : error) ?? "";
  return FAULT_CODES.find(([, heads]) => heads.some((head) => code.startsWith(head)))?.[0];
}

function prepareConnection(sqlite: Database, durability: Durability): void {
  setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run(`PRAGMA synchronous = ${durability === "power" ? "FULL" : "NORMAL"}`);
  sqlite.run(`PRAGMA journal_size_limit = ${WAL_BYTES_KEPT}`);
  sqlite.run("PRAGMA foreign_keys = ON");
  // Else INSERT OR REPLACE removes rows without asking the triggers that forbid it.
  sqlite.run("PRAGMA recursive_triggers = ON");
  setUntrustedFilePragmas(sqlite);
}

/** How long this connection waits for a lock from now on. */
export function setBusyTimeout(sqlite: Database, ms: number): void {
  sqlite.run(`PRAGMA busy_timeout = ${ms}`);
}

/**
 * How the database keeps what is not finished: `wal`, or `delete`, where its file alone has all that was committed.
 * With `wanted` it is told to change first, which SQLite does only where nobody else has it open.
 */
export function journalMode(sqlite: Database, wanted?: "delete"): string | undefined {
  const pragma = `PRAGMA journal_mode${wanted === undefined ? "" : ` = ${wanted}`}`;
  return sqlite.query<{ journal_mode: string }, []>(pragma).get()?.journal_mode;
}

/** Whoever has the file in hand could have put anything into it. */
export function setUntrustedFilePragmas(sqlite: Database): void {
  sqlite.run("PRAGMA trusted_schema = OFF");
  sqlite.run("PRAGMA cell_size_check = ON");
  sqlite.run("PRAGMA mmap_size = 0");
}

/**
 * What SQLite reported about the file at `path`, as a StoreError that says what to do. Any other
 * error, and a broken constraint, which is a bug of ours, is returned as it is.
 */
export function toStoreError(path: string, error: unknown): unknown {
  const fault = sqliteFault(error);
  if (error instanceof StoreError || fault === undefined || fault === "constraint") return error;
  if (fault === "unwritable") return notWritableError(path, error);
  return new StoreError(explanation(path, fault, error), { cause: error });
}

/** Why the database at `path`, or its lock, can be neither made nor written to, and what to do. */
export function notWritableError(path: string, cause: unknown): StoreError {
  return new StoreError(missingFolderProblem(path) ?? refusal(path, cause), { cause });
}

function refusal(path: string, cause: unknown): string {
  if (sqliteFault(cause) === "full") return outOfRoom(path);
  if (isNotRegularFile(path)) return `database is no file: ${path}; ${NAME_ANOTHER}`;
  return `database is not writable: ${path} (${fileErrorReason(cause)}); run as its owner, mount its disk writable, write the unit of the service again (remove it, then \`tollgate service install\` and \`systemctl daemon-reload\`), or ${NAME_ANOTHER}`;
}

function outOfRoom(path: string): string {
  return `database has no room left on its disk: ${path}`;
}

function explanation(path: string, fault: SqliteFault, error: unknown): string {
  if (fault === "damaged")
    return `database is damaged or not a database: ${path}; it was left untouched, \`tollgate restore FILE\` puts a backup in its place`;
  if (fault === "busy") return `database is locked by another process: ${path}; try again`;
  if (fault === "full") return outOfRoom(path);
  const failure = `database cannot be used: ${path} (${errorCode(error)})`;
  if (fault === "io")
    return `${failure}; its disk failed, \`dmesg\` says how, or what lies beside it is no file: mend that and try again`;
  return `${failure}; \`tollgate doctor\` says what is wrong with it, \`tollgate restore FILE\` puts a backup in its place`;
}

/** Which file lay at a path when it was opened. */
export interface FileIdentity {
  /** Whether another, or none, lies there now: what is written then goes to a file that nobody finds again. */
  isReplaced(): boolean;
}

/**
 * To be called before the file is opened. If `isReplaced` says no after that, the opened file is the one at the path;
 * as long as it is open, no other file gets its inode.
 */
export function identifyFile(path: string): FileIdentity {
  const opened = identityOf(path);
  return {
    isReplaced() {
      try {
        return identityOf(path) !== opened;
      } catch (error) {
        const code = errorCode(error);
        // Any other failure says nothing of the file.
        return code === "ENOENT" || code === "ENOTDIR";
      }
    },
  };
}

function identityOf(path: string): string {
  const { dev, ino } = statSync(path, { bigint: true });
  return `${dev}:${ino}`;
}

/** Runs `work`; what the system refuses becomes a StoreError that begins with `what` and says why. */
export function withStoreErrors<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`${what}: ${fileErrorReason(cause)}`, { cause });
  }
}
