import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { systemClock } from "../../../lib/clock.ts";
import { pathStatus } from "../../../lib/systemError.ts";
import { knownVersion, migrationsBetween, type UpgradePlan } from "../../schema/migrationFiles.ts";
import { NoRoomError, StoppedError, StoreError } from "../../storeError.ts";
import { auditRecords } from "../audit/auditSqlite.ts";
import { backUp } from "../backup/backup.ts";
import {
  giveToOwner,
  keptName,
  removePartialCopies,
  type CopyProgress,
} from "../backup/copying.ts";
import { databaseFile, freeDiskBytes } from "../databaseFile.ts";
import { isGatewayRunning } from "../lock.ts";
import {
  BUSY_TIMEOUT_MS,
  connect,
  setBusyTimeout,
  sqliteFault,
  toStoreError,
  type Durability,
} from "../sqlite.ts";
import {
  copiesRequests,
  isOlder,
  migrateOlder,
  readSchemaVersion,
  refuseMigration,
  requireSupportedSchema,
  type MigrationProgress,
  type SchemaVersion,
} from "./migrations.ts";
import { schemaProblems } from "./schemaCheck.ts";

/**
 * What an upgrade does, in this order: it makes a backup or none, migrates, and has ended. An upgrade that fails reports no
 * end.
 */
export type UpgradeStep =
  | { readonly step: "backup"; readonly file: string; readonly bytes: number }
  | CopyProgress
  | {
      readonly step: "backedUp";
      readonly file: string;
      readonly bytes: number;
      readonly tookMs: number;
    }
  | { readonly step: "noBackup"; readonly reason: "unwanted" }
  | { readonly step: "noBackup"; readonly reason: "noRoom"; readonly room: UpgradeRoom }
  | ({ readonly step: "migrating" } & MigrationProgress)
  | ({ readonly step: "upgraded"; readonly tookMs: number } & SchemaVersion);

export interface UpgradeOptions {
  readonly path: string;
  readonly durability: Durability;
  /** The caller holds the instance lock. */
  readonly serving: boolean;
  readonly wantsBackup: boolean;
  /** Ends the backup. A migration goes on to its end. */
  readonly stopped: Promise<void>;
  readonly onStep: (step: UpgradeStep) => void;
}

/** Space on the disk of a database, for its backup and its migration. */
export interface UpgradeRoom {
  readonly neededBytes: number;
  readonly freeBytes: number;
}

/**
 * Backup, its migrated copy, and what the migration adds to the file and its log, in sizes of the database. A migration
 * that copies a million requests added 1.5 sizes, another one nothing.
 */
const ROOM_TO_COPY_REQUESTS = 4;
const ROOM_WITHOUT_COPY = 2.5;
const ROOM_SPARE_BYTES = 32 * 1024 * 1024;

/**
 * Whether an earlier version made the database at `path`. False also if there is none, or if it cannot be read: its opening
 * says why. Takes a tenth of a millisecond.
 */
export function needsUpgrade(path: string): boolean {
  try {
    const version = readFile(path, readSchemaVersion);
    return version !== undefined && isOlder(version);
  } catch {
    return false;
  }
}

/**
 * What the next opening does to the schema of the database at `path`. Changes nothing. Throws StoreError if it cannot be read,
 * and for one of a newer version, of one before 0.2.0, or of another program.
 */
export function planFileUpgrade(path: string): UpgradePlan {
  try {
    const known = knownVersion("sqlite");
    const { applied } = readFile(path, requireSupportedSchema) ?? { applied: 0 };
    const goesOn = applied === 0 ? undefined : false;
    const migrations = migrationsBetween("sqlite", applied);
    const releases = applied < known ? [{ migrations, goesOn }] : [];
    return { applied, known, releases };
  } catch (error) {
    throw toStoreError(path, error);
  }
}

/** Undefined if there is no database at `path`. Throws what `read` throws, and the errors of SQLite. */
function readFile<Found>(path: string, read: (sqlite: Database) => Found): Found | undefined {
  const found = pathStatus(path);
  // SQLite would delete the log of an empty database. Opening a pipe would wait for a writer.
  if (typeof found !== "object" || !found.isFile() || found.size === 0) return undefined;
  const sqlite = new Database(path, { readonly: true });
  try {
    // Another process may be opening or closing the database, and locks it for that moment.
    setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
    return read(sqlite);
  } finally {
    sqlite.close();
  }
}

/**
 * Brings the database of an earlier version to this program's schema, after a verified backup beside it. Without enough room
 * for a backup none is made. No other process writes from the backup until the end. Does nothing for another database, and
 * while a gateway of another version runs. Rejects with StoreError if the backup or the migration fails, and with StoppedError;
 * then the database is as it was.
 */
export async function upgradeStore(options: UpgradeOptions): Promise<void> {
  const { path, durability, serving, onStep } = options;
  if (!needsUpgrade(path)) return;
  const connection = connect(path, durability);
  const { sqlite } = connection;
  const beganMs = performance.now();
  let backup: string | undefined;
  try {
    const applied = await migrateOlder(connection, {
      mayMigrate: () => serving || !isGatewayRunning(path),
      async prepare(version) {
        backup = await backUpBefore(sqlite, version, options);
      },
      schemaProblems: (count) => schemaProblems(sqlite, count),
      audit: () => auditRecords(connection),
      refuse: refuseMigration,
      onProgress: (progress) => onStep({ step: "migrating", ...progress }),
    });
    // From here on the backup is the way back.
    backup = undefined;
    if (applied === undefined) return;
    const tookMs = performance.now() - beganMs;
    onStep({ step: "upgraded", applied, known: readSchemaVersion(sqlite).known, tookMs });
  } catch (error) {
    if (backup !== undefined && !isDiskFailure(error)) rmSync(backup, { force: true });
    throw toStoreError(path, error);
  } finally {
    sqlite.close();
  }
}

/**
 * After such a failure of an upgrade its backup is kept. After any other one the database is as it was, and each further try
 * would leave another backup.
 */
function isDiskFailure(error: unknown): boolean {
  const fault = sqliteFault(error);
  return fault === "io" || fault === "damaged";
}

/** Returns the path of the backup; undefined without one. */
async function backUpBefore(
  sqlite: Database,
  version: SchemaVersion,
  { path, wantsBackup, stopped, onStep }: UpgradeOptions,
): Promise<string | undefined> {
  if (!wantsBackup) {
    onStep({ step: "noBackup", reason: "unwanted" });
    return undefined;
  }
  const database = databaseFile(path);
  // This process alone upgrades the database. Partial copies are of processes that were killed.
  removePartialCopies(`${database}.before-upgrade-`);
  const noRoom = (room: UpgradeRoom): undefined => {
    onStep({ step: "noBackup", reason: "noRoom", room });
  };
  const room = upgradeRoom(sqlite, path, version);
  if (room.freeBytes < room.neededBytes) return noRoom(room);
  const file = `${keptName(database, "upgrade", systemClock.epochMs())}-schema-${version.applied}`;
  const beganMs = performance.now();
  const bytes = usedBytes(sqlite);
  onStep({ step: "backup", file, bytes });
  try {
    const made = await backUp({ database, file, stopped, watch: { bytes, onProgress: onStep } });
    // The owner of the database must own its backup.
    if (process.getuid?.() === 0) giveToOwner(file, database);
    const tookMs = performance.now() - beganMs;
    onStep({ step: "backedUp", file, bytes: made.bytes, tookMs });
    return file;
  } catch (error) {
    if (error instanceof NoRoomError) return noRoom(upgradeRoom(sqlite, path, version));
    if (!(error instanceof StoreError) || error instanceof StoppedError) throw error;
    throw new StoreError(
      `database was not upgraded and not changed, because its backup failed: ${error.message}`,
      { cause: error },
    );
  }
}

/** The room that a backup and the migration of this older database need, and the free room of its disk. */
export function upgradeRoom(sqlite: Database, path: string, version: SchemaVersion): UpgradeRoom {
  const sizes = copiesRequests(version) ? ROOM_TO_COPY_REQUESTS : ROOM_WITHOUT_COPY;
  return {
    neededBytes: Math.ceil(usedBytes(sqlite) * sizes) + ROOM_SPARE_BYTES,
    freeBytes: freeDiskBytes(path),
  };
}

/** The size of a copy: without free pages, and with what is only in the log. */
function usedBytes(sqlite: Database): number {
  const query = `SELECT (page_count - freelist_count) * page_size AS bytes
    FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`;
  return Number(sqlite.query<{ bytes: bigint | number }, []>(query).get()?.bytes);
}
