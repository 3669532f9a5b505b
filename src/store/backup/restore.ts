import { chownSync, existsSync, lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Database } from "bun:sqlite";
import type { Actor } from "../schema/schema.ts";
import { rowsNewerThan, type NewerRows } from "./verifiedCopy.ts";
import { discardCopy, makeCopy, partialName } from "./copying.ts";
import {
  databaseFile,
  lockPath,
  WAL_SUFFIXES,
  findOrphanedWal,
  missingFolderProblem,
} from "../databaseFile.ts";
import { takeInstanceLock } from "../lock.ts";
import { withStoreErrors, StoreError, connectReadOnly, sqliteFault } from "../sqlite.ts";
import { holdDatabase, replaceDatabase } from "./replaceDatabase.ts";

/** How long commands that are at the database have to come to their end. */
const COMMANDS_WAIT_MS = 5000;

/** What became of it. */
export interface Restored {
  accounts: number;
  requests: number;
  /** Where the database that was there before lies now, or its log, if that alone was there; undefined where there was none. */
  kept: string | undefined;
  /** What only the kept one has; undefined where that cannot be told. */
  newer: NewerRows | undefined;
  /** What did not work in the kept one any more, and does again; undefined where that cannot be told. */
  reactivated: Reactivated | undefined;
}

interface RestoreOptions {
  database: string;
  file: string;
  actor: Actor;
  stopped: Promise<void>;
}

/**
 * Puts the content of the backup `file` in the place of the database. It is verified before anything is touched, and
 * only read. The database that was there is kept under another name; a crash leaves either of them in its
 * place, whole. Refused while a gateway runs, which cannot start meanwhile, or another program is at the
 * database. When `stopped` resolves in time, nothing was changed. Rejects with StoreError.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { database, file } = options;
  const target = withStoreErrors(`cannot write ${database}`, () => resolveTarget(database));
  withStoreErrors(`cannot read ${file}`, () => refuseFile(file, target));
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
  const { file, database, actor, stopped } = options;
  const partial = partialName(target);
  const order = { kind: "copyBackup", from: file, to: partial, actor } as const;
  const { accounts, requests, end } = await makeCopy(order, stopped);
  try {
    for (const path of [partial, lockPath(database)]) giveToOwner(path, target);
    const held = holdDatabase(target, COMMANDS_WAIT_MS);
    try {
      const newer = held.sqlite && rowsNewerThan(held.sqlite, end);
      const reactivated = held.sqlite && reactivatedBy(partial, held.sqlite, actor.at);
      const kept = keptName(target, actor.at);
      const found = whatIsKept(target, kept);
      const steps = replaceDatabase({ target, copy: partial, kept });
      while (!steps.next().done);
      return { accounts, requests, kept: found, newer, reactivated };
    } finally {
      held.release();
    }
  } finally {
    discardCopy(partial);
  }
}

/** Where the file itself lies, or will lie: a link to it stays one. */
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

function refuseFile(file: string, target: string): void {
  const status = statSync(file, { throwIfNoEntry: false });
  if (!status) throw new StoreError(`there is no file ${file}: name a backup`);
  if (!status.isFile()) throw new StoreError(`${file} is no file: name a backup`);
  const there = statSync(target, { throwIfNoEntry: false });
  if (there?.dev === status.dev && there.ino === status.ino)
    throw new StoreError(`${file} is the database itself: name a backup`);
  for (const suffix of WAL_SUFFIXES) {
    const log = file + suffix;
    if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw new StoreError(
        `${file} is a database at work, and no backup: a part of it lies in ${log}; make one of it with \`tollgate backup\``,
      );
  }
}

/** What an administrator restores must stay readable for the user as whom the gateway runs. */
function giveToOwner(path: string, target: string): void {
  const isThere = existsSync(target);
  // Only root can give a file away; of a new database everybody else is the owner.
  if (!isThere && process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(isThere ? target : dirname(target));
  if (statSync(path).uid === uid) return;
  withStoreErrors(`${target} belongs to the user with uid ${uid}, run this as that one`, () =>
    chownSync(path, uid, gid),
  );
}

/** Of a database that is away its log has what was committed last, and is of use again beside it. */
function whatIsKept(target: string, kept: string): string | undefined {
  if (findOrphanedWal(target) !== undefined) return `${kept}-wal`;
  return existsSync(target) ? kept : undefined;
}

/** To the millisecond, in UTC. */
function keptName(target: string, atMs: number): string {
  const time = new Date(atMs).toISOString().replace(/[-:]/g, "");
  return `${target}.before-restore-${time}`;
}

/** What a restore lets in again that was shut out: keys by their public ids, and accounts by their names. */
export interface Reactivated {
  /** They were revoked, or had expired, as one does whose grace after a rotation is over. */
  keys: readonly string[];
  /** They were disabled. */
  accounts: readonly string[];
}

const ENDED_KEYS = `SELECT public_id AS name FROM keys
  WHERE revoked_at IS NOT NULL OR expires_at <= ?1 ORDER BY id`;
const LIVE_KEY = `SELECT 1 FROM keys JOIN accounts ON accounts.id = keys.account_id
  WHERE public_id = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) AND NOT disabled`;
const DISABLED_ACCOUNTS = "SELECT name FROM accounts WHERE disabled ORDER BY name";
const LIVE_ACCOUNT = "SELECT 1 FROM accounts WHERE name = ?1 AND NOT disabled";

/**
 * What works in the store at `copy`, to which nobody writes, and does not in the one `before`, at that time in
 * milliseconds since 1970; undefined where `before` cannot be read, or is no store.
 */
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
