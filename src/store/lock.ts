import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { isNotRegularFile, lockPath } from "./databaseFile.ts";
import {
  identifyFile,
  type FileIdentity,
  createDatabaseFile,
  sqliteFault,
  StoreError,
  notWritableError,
} from "./sqlite.ts";

/** A command that only asks whether a gateway runs holds the lock for less than this. */
const LOCK_WAIT_MS = 200;

/** Held by the one `serve` of a database for its life. Keep it reachable: once collected, the lock is gone. */
export interface InstanceLock {
  /** Whether its file was removed or replaced: another `serve` would get the lock of the new one. */
  isFileReplaced(): boolean;
  release(): void;
}

/**
 * Takes the lock on a second file beside the database; undefined when another process has it. The
 * kernel frees it however the process ends, so there is nothing to clean up after `kill -9`.
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
    throw unusable(path, cause);
  }
  try {
    database.run(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}`);
    database.run("BEGIN EXCLUSIVE");
  } catch (cause) {
    database.close();
    if (sqliteFault(cause) === "busy") return undefined;
    throw unusable(path, cause);
  }
  return {
    isFileReplaced: () => file.isReplaced(),
    release() {
      database.close();
    },
  };
}

function unusable(path: string, cause: unknown): StoreError {
  if (sqliteFault(cause) !== "damaged" && !isNotRegularFile(path))
    return notWritableError(path, cause);
  return new StoreError(
    `${path} should be the lock of the database, and is something else: move it away while no gateway runs`,
    { cause },
  );
}

/**
 * Whether some process holds the instance lock now. Where there is no lock none is made: it would belong to
 * whoever asks, such as root, and keep the user of the gateway out.
 */
export function isGatewayRunning(databasePath: string): boolean {
  if (!existsSync(lockPath(databasePath))) return false;
  const lock = takeInstanceLock(databasePath);
  lock?.release();
  return lock === undefined;
}
