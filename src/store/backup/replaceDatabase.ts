import type { Database } from "bun:sqlite";
import { chmodSync, existsSync, linkSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { syncPath } from "./copying.ts";
import {
  connect,
  journalMode,
  sqliteFault,
  StoreError,
  type Connection,
  withStoreErrors,
} from "../sqlite.ts";
import { findOrphanedWal, WAL_SUFFIXES, OWNER_ONLY, SIDE_SUFFIXES } from "../databaseFile.ts";
import { fileErrorReason } from "../../lib/systemError.ts";

/** A database that no other program can open as long as this is held. */
export interface HeldDatabase {
  /** Undefined where there is no database, or one that cannot be read. */
  readonly sqlite: Database | undefined;
  release(): void;
}

const HOLD_PAUSE_MS = 20;

/**
 * Takes the database for this process alone, waits `waitMs` for commands that are at it, and brings all that was
 * committed into its one file. One that is damaged is left as it is: nobody can open it. Throws StoreError.
 */
export function holdDatabase(path: string, waitMs: number): HeldDatabase {
  const nothing = { sqlite: undefined, release() {} };
  // Nobody can open an absent one to which there is a log, and opening it here would remove the log.
  if (!existsSync(path) || findOrphanedWal(path) !== undefined) return nothing;
  let connection: Connection | undefined;
  try {
    connection = connect(path, "power");
    const { sqlite } = connection;
    takeWhole(sqlite, path, waitMs);
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

function takeWhole(sqlite: Database, path: string, waitMs: number): void {
  sqlite.run(`PRAGMA busy_timeout = ${HOLD_PAUSE_MS}`);
  const deadlineMs = performance.now() + waitMs;
  while (!isTaken(sqlite)) {
    if (performance.now() > deadlineMs)
      throw new StoreError(
        `database is in use by another program: ${path}; try again when it ended`,
      );
    Bun.sleepSync(HOLD_PAUSE_MS);
  }
}

/**
 * Leaving the mode of a WAL takes being the only one; in the other mode the exclusive lock keeps out also who
 * would only read. Between the two another program may have come and gone back to a WAL.
 */
function isTaken(sqlite: Database): boolean {
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

/** A disk that has no room says nothing of the database that is on it. */
function isDamage(error: unknown): boolean {
  const fault = sqliteFault(error);
  return fault === "damaged" || fault === "io";
}

/**
 * Puts `copy` in the place of `target`, which is held, or absent, or damaged; what was there gets the name `kept`, and the
 * log of a damaged one the name that goes with it. Yields behind each step what it did. A process that ends
 * there, or a power cut, leaves in its place the old one or the new one, and never the new one with the
 * log of the old one, which SQLite would play into it. Throws StoreError, with the old one in its place.
 */
export function* replaceDatabase(place: {
  target: string;
  copy: string;
  kept: string;
}): Generator<string, void> {
  const { target, copy, kept } = place;
  const folder = dirname(target);
  keep(target, kept);
  syncPath(folder);
  yield "the old one has a second name";
  for (const suffix of SIDE_SUFFIXES) rmSync(target + suffix, { force: true });
  syncPath(folder);
  yield "it has no log";
  withStoreErrors(`cannot replace ${target}`, () => renameSync(copy, target));
  syncPath(folder);
  yield "the new one is in its place";
  if (existsSync(kept)) chmodSync(kept, OWNER_ONLY);
}

/** By links: at no moment is there no database, for which a gateway would make an empty one. */
function keep(target: string, kept: string): void {
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
