import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { isNotRegularFile, lockPath } from "./databaseFile.ts";
import {
  createDatabaseFile,
  type FileIdentity,
  identifyFile,
  notWritableError,
  setBusyTimeout,
  sqliteFault,
} from "./sqlite.ts";
import { StoreError } from "../storeError.ts";

/** A command that asks whether a gateway runs holds the lock for less than this. */
const LOCK_WAIT_MS = 200;

/** The lock of the one `serve` of a database. Keep it reachable: garbage collection releases it. */
export interface InstanceLock {
  /** True when the lock file was removed or replaced: another `serve` could lock the new one. */
  isFileReplaced(): boolean;
  release(): void;
}

/**
 * Takes the lock on a second SQLite file beside the database; undefined when another process has it. The kernel
 * releases it when the process ends, also by `kill -9`. Throws StoreError.
 */
export function takeInstanceLock(databasePath: string): InstanceLock | undefined {
  const path = lockPath(databasePath);
  let database: Database;
  let file: FileIdentity;
  try {
    createDatabaseFile(path);
    file = identifyFile(path);
    database = new Database(path, { readwrite: true, create: true });
  } catch (cause) {
    throw lockError(path, cause);
  }
  try {
    setBusyTimeout(database, LOCK_WAIT_MS);
    database.run("BEGIN EXCLUSIVE");
  } catch (cause) {
    database.close();
    if (sqliteFault(cause) === "busy") return undefined;
    throw lockError(path, cause);
  }
  return {
    isFileReplaced: () => file.isReplaced(),
    release() {
      database.close();
    },
  };
}

function lockError(path: string, cause: unknown): StoreError {
  if (sqliteFault(cause) !== "damaged" && !isNotRegularFile(path))
    return notWritableError(path, cause);
  return new StoreError(
    `${path} should be the lock of the database, and is something else: move it away while no gateway runs`,
    { cause },
  );
}

/**
 * Whether a process holds the instance lock. Does not create the lock file: root would own it, and the gateway's user
 * could not open it.
 */
export function isGatewayRunning(databasePath: string): boolean {
  if (!existsSync(lockPath(databasePath))) return false;
  const lock = takeInstanceLock(databasePath);
  lock?.release();
  return lock === undefined;
}
