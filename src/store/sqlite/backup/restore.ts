import { existsSync, lstatSync, statSync } from "node:fs";
import type { Database } from "bun:sqlite";
import type { Actor } from "../../schema/schema.ts";
import { rowsNewerThan, type NewerRows } from "./verifiedCopy.ts";
import { giveToOwner, keptName, withCopy } from "./copying.ts";
import {
  databaseFile,
  lockPath,
  WAL_SUFFIXES,
  findOrphanedWal,
  missingFolderProblem,
} from "../databaseFile.ts";
import { takeInstanceLock } from "../lock.ts";
import { withStoreErrors, connectReadOnly, sqliteFault } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { holdDatabase, replaceDatabase } from "./replaceDatabase.ts";

/** How long a restore waits for other commands. */
const COMMANDS_WAIT_MS = 5000;

export interface Restored {
  accounts: number;
  requests: number;
  /** The new path of the old database, or of its orphaned WAL; undefined if there was none. */
  kept: string | undefined;
  /** Rows that only the old database has; undefined if unknown. */
  newer: NewerRows | undefined;
  /** Keys and accounts that work again after the restore; undefined if unknown. */
  reactivated: Reactivated | undefined;
}

interface RestoreOptions {
  database: string;
  file: string;
  actor: Actor;
  stopped: Promise<void>;
}

/**
 * Replaces the database by a verified copy of the backup `file`, which is only read. The old database stays under
 * another name. A crash leaves the old or the new database complete. Refused while a gateway or another program uses
 * the database; a gateway cannot start meanwhile. If `stopped` resolves during the copy, nothing is changed. Rejects
 * with StoreError.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { database, file } = options;
  const target = withStoreErrors(`cannot write ${database}`, () => resolveTarget(database));
  withStoreErrors(`cannot read ${file}`, () => refuseBackupFile(file, target));
  const lock = takeInstanceLock(database);
  if (!lock)
    throw new StoreError(`a gateway is running on this database: ${target}; stop it first`);
  try {
    return await restoreLocked(options, target);
  } finally {
    lock.release();
  }
}

async function restoreLocked(options: RestoreOptions, target: string): Promise<Restored> {
  const { file, database, actor } = options;
  const order = { kind: "copyBackup", from: file, actor } as const;
  return await withCopy(target, order, options, (copy, { accounts, requests, lastRows }) => {
    for (const path of [copy, lockPath(database)]) giveToOwner(path, target);
    const held = holdDatabase(target, COMMANDS_WAIT_MS);
    try {
      const newer = held.sqlite && rowsNewerThan(held.sqlite, lastRows);
      const reactivated = held.sqlite && reactivatedBy(copy, held.sqlite, actor.at);
      const kept = keptName(target, "restore", actor.at);
      const keptPath = keptPathOf(target, kept);
      const steps = replaceDatabase({ target, copy, kept });
      while (!steps.next().done);
      return { accounts, requests, kept: keptPath, newer, reactivated };
    } finally {
      held.release();
    }
  });
}

/** The path of the database file itself, so that a link to it stays a link. */
function resolveTarget(database: string): string {
  if (existsSync(database)) return databaseFile(database);
  if (lstatSync(database, { throwIfNoEntry: false }))
    throw new StoreError(
      `${database} is a link to a file that is not there: mount its disk, or remove it`,
    );
  const missing = missingFolderProblem(database);
  if (missing !== undefined) throw new StoreError(missing);
  return databaseFile(database);
}

function refuseBackupFile(file: string, target: string): void {
  const status = statSync(file, { throwIfNoEntry: false });
  if (!status) throw new StoreError(`there is no file ${file}: name a backup`);
  if (!status.isFile()) throw new StoreError(`${file} is no file: name a backup`);
  const existing = statSync(target, { throwIfNoEntry: false });
  if (existing?.dev === status.dev && existing.ino === status.ino)
    throw new StoreError(`${file} is the database itself: name a backup`);
  for (const suffix of WAL_SUFFIXES) {
    const log = file + suffix;
    if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw new StoreError(
        `${file} is a database in use, and no backup: a part of its data is in ${log}; make a backup of it with \`tollgate backup\``,
      );
  }
}

function keptPathOf(target: string, kept: string): string | undefined {
  if (findOrphanedWal(target) !== undefined) return `${kept}-wal`;
  return existsSync(target) ? kept : undefined;
}

/** Keys (public ids) and accounts (names) that work again after a restore. */
export interface Reactivated {
  /** Keys that were revoked, or had expired, also after the grace period of a rotation. */
  keys: readonly string[];
  /** Accounts that were disabled. */
  accounts: readonly string[];
}

const ENDED_KEYS = `SELECT public_id AS name FROM keys
  WHERE revoked_at IS NOT NULL OR expires_at <= ?1 ORDER BY id`;
const LIVE_KEY = `SELECT 1 FROM keys JOIN accounts ON accounts.id = keys.account_id
  WHERE public_id = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) AND NOT disabled`;
const DISABLED_ACCOUNTS = "SELECT name FROM accounts WHERE disabled ORDER BY name";
const LIVE_ACCOUNT = "SELECT 1 FROM accounts WHERE name = ?1 AND NOT disabled";

/** Finds what does not work in `before` at the time `atMs`, and works in `copy`. Undefined if `before` cannot be read. */
function reactivatedBy(copy: string, before: Database, atMs: number): Reactivated | undefined {
  const after = connectReadOnly(copy);
  try {
    const isLiveKey = after.query<object, [string, number]>(LIVE_KEY);
    const isLiveAccount = after.query<object, [string]>(LIVE_ACCOUNT);
    return {
      keys: names(before, ENDED_KEYS, atMs).filter((id) => isLiveKey.get(id, atMs) !== null),
      accounts: names(before, DISABLED_ACCOUNTS).filter((name) => isLiveAccount.get(name) !== null),
    };
  } catch (error) {
    if (sqliteFault(error) === undefined) throw error;
    return undefined;
  } finally {
    after.close(true);
  }
}

function names(sqlite: Database, query: string, ...values: number[]): string[] {
  return sqlite
    .query<{ name: string }, number[]>(query)
    .all(...values)
    .map(({ name }) => name);
}
