import type { Database } from "bun:sqlite";
import { chmodSync, existsSync, linkSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { syncPath } from "./copying.ts";
import {
  connect,
  journalMode,
  sqliteFault,
  type SqliteConnection,
  withStoreErrors,
} from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { findOrphanedWal, WAL_SUFFIXES, OWNER_ONLY, SIDE_SUFFIXES } from "../databaseFile.ts";
import { fileErrorReason } from "../../../lib/systemError.ts";

/** A database that no other process can open until the release. */
export interface HeldDatabase {
  /** Undefined if there is no database, or a damaged one. */
  readonly sqlite: Database | undefined;
  release(): void;
}

const LOCK_POLL_MS = 20;

/**
 * Locks the database exclusively and moves all commits into its one file. Waits up to `waitMs` for other commands. A
 * damaged database is not locked: no process can open it. Throws StoreError.
 */
export function holdDatabase(path: string, waitMs: number): HeldDatabase {
  const nothing = { sqlite: undefined, release() {} };
  // Opening the database here would delete an orphaned WAL. No other process opens it either.
  if (!existsSync(path) || findOrphanedWal(path) !== undefined) return nothing;
  let connection: SqliteConnection | undefined;
  try {
    connection = connect(path, "power");
    const { sqlite } = connection;
    waitForExclusiveLock(sqlite, path, waitMs);
    return {
      sqlite,
      release() {
        sqlite.run("ROLLBACK");
        sqlite.close();
      },
    };
  } catch (error) {
    connection?.sqlite.close();
    if (isDamage(error)) return nothing;
    throw error;
  }
}

function waitForExclusiveLock(sqlite: Database, path: string, waitMs: number): void {
  sqlite.run(`PRAGMA busy_timeout = ${LOCK_POLL_MS}`);
  const deadlineMs = performance.now() + waitMs;
  while (!tryExclusiveLock(sqlite)) {
    if (performance.now() > deadlineMs)
      throw new StoreError(
        `database is in use by another program: ${path}; try again when it ended`,
      );
    Bun.sleepSync(LOCK_POLL_MS);
  }
}

/**
 * SQLite leaves WAL mode only if no other connection is open. In `delete` mode an exclusive lock also excludes readers.
 * Another process may switch back to WAL between the two steps, so the mode is read again.
 */
function tryExclusiveLock(sqlite: Database): boolean {
  try {
    if (journalMode(sqlite, "delete") !== "delete") return false;
    sqlite.run("BEGIN EXCLUSIVE");
    if (journalMode(sqlite) === "delete") return true;
    sqlite.run("ROLLBACK");
  } catch (error) {
    if (sqliteFault(error) !== "busy") throw error;
  }
  return false;
}

function isDamage(error: unknown): boolean {
  const fault = sqliteFault(error);
  return fault === "damaged" || fault === "io";
}

/**
 * Replaces `target`, which is held, absent or damaged, by `copy`. The old database, with the WAL of a damaged one, stays
 * under the name `kept`. Yields after each step, for tests. A crash or a power cut after any step leaves the old or the
 * new database, and never the new one with the old WAL, which SQLite would apply to it. Throws StoreError; the old
 * database stays then.
 */
export function* replaceDatabase(paths: {
  target: string;
  copy: string;
  kept: string;
}): Generator<string, void> {
  const { target, copy, kept } = paths;
  const folder = dirname(target);
  linkKept(target, kept);
  syncPath(folder);
  yield "the old database has a second name";
  for (const suffix of SIDE_SUFFIXES) rmSync(target + suffix, { force: true });
  syncPath(folder);
  yield "the old WAL is removed";
  withStoreErrors(`cannot replace ${target}`, () => renameSync(copy, target));
  syncPath(folder);
  yield "the new database is in place";
  if (existsSync(kept)) chmodSync(kept, OWNER_ONLY);
}

/** By links, so that the database always exists: a gateway would create an empty one. */
function linkKept(target: string, kept: string): void {
  const made: string[] = [];
  try {
    for (const suffix of [...WAL_SUFFIXES, ""]) {
      if (!existsSync(target + suffix)) continue;
      linkSync(target + suffix, kept + suffix);
      made.push(kept + suffix);
    }
  } catch (cause) {
    for (const path of made) rmSync(path, { force: true });
    throw new StoreError(
      `the database that is there cannot be kept as ${kept}: ${fileErrorReason(cause)}; move it away by hand and try again`,
      { cause },
    );
  }
}
