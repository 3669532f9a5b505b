import { KnownKeys } from "../auth/knownKeys.ts";
import { Holds } from "../billing/holds.ts";
import type { SqliteDatabase } from "../config/schema.ts";
import { formatRoubles } from "../lib/money.ts";
import { oneReplica } from "../limits/rateLimits.ts";
import {
  createWalSizeWarning,
  freeDiskBytes,
  hardLinkProblem,
  openStore,
  startWriter,
  takeInstanceLock,
  toStoreError,
  walSizeBytes,
  type InstanceLock,
  upgradeStore,
  type SqliteStore,
  type UpgradeStep,
} from "../store/open.ts";
import { StoreError, StoppedError } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";

/** How often the gateway checks that database and lock are still the files that it opened, and the size of the WAL. */
const FILE_WATCH_MS = 5000;

/** Opens the SQLite file of the one gateway that serves from it. Rejects with StoreError. */
export async function openSqliteDatabase(
  database: SqliteDatabase,
  services: DatabaseServices,
): Promise<ServedDatabase> {
  const { clock, random, log, metrics } = services;
  const { path, durability } = database;
  const { lock, store, interrupted } = await openLocked(database, services);
  // Normal at a first start. Later it means that the database file was lost or the path has changed.
  if (store.isNew)
    log.info("created a new database: none existed at this path", { database: path });
  if (interrupted.count > 0) {
    const fields = { count: interrupted.count, held_rub: formatRoubles(interrupted.reserved) };
    log.warn("previous_run_interrupted", fields);
  }
  const writer = startWriter(
    { path, durability },
    (message) => services.fatal(message),
    (tookMs) => metrics.committed(tookMs),
    clock,
  );
  const holds = new Holds({
    writer,
    clock,
    random,
    changes: () => store.changes.current(),
    refuse: () => services.refuse(),
  });
  const watch = watchFiles({ path, store, lock, log }, (message) => services.fatal(message));
  return {
    store,
    readsBlock: true,
    writer,
    holds,
    knownKeys: new KnownKeys(store),
    changeNotice: async (change) =>
      (await writer.write({ kind: "notice", change })).claimed === true,
    replicas: oneReplica,
    get blockedBy() {
      return writer.blockedBy;
    },
    requireReadable: () => store.requireReadable(),
    figures: () => ({ walBytes: walSizeBytes(path), freeBytes: knownFreeBytes(path) }),
    async close() {
      clearInterval(watch);
      holds.close();
      await writer.close();
      // After a failed sync nothing may be written, and closing the database writes.
      if (!writer.isBroken && !store.closeNow()) log.warn("wal_kept");
      lock.release();
    },
  };
}

/**
 * Takes the instance lock, upgrades and opens the store, and ends requests that an earlier run left open. Releases all on
 * failure.
 */
async function openLocked({ path, durability }: SqliteDatabase, services: DatabaseServices) {
  const { log, upgrade } = services;
  const lock = takeInstanceLock(path);
  if (!lock) throw alreadyRunning(path);
  let store: SqliteStore | undefined;
  try {
    const problem = hardLinkProblem(path);
    if (problem !== undefined) throw new StoreError(problem);
    const serving = true;
    const onStep = (step: UpgradeStep): void => logUpgrade(log, step);
    await upgradeStore({ path, durability, serving, ...upgrade, onStep });
    store = openStore({ path, durability, serving });
    return { lock, store, interrupted: store.interruptRunning() };
  } catch (error) {
    store?.closeNow();
    lock.release();
    if (error instanceof StoppedError) {
      log.info("stopped before the upgrade: nothing was changed");
      log.flush();
    }
    throw toStoreError(path, error);
  }
}

function logUpgrade(log: Log, step: UpgradeStep): void {
  switch (step.step) {
    case "backup":
      log.info("making a backup before the upgrade", { backup: step.file, bytes: step.bytes });
      break;
    case "copying":
      log.info("copying the database", { bytes: step.done, total: step.total });
      break;
    case "checking":
      log.info("checking the backup", { count: step.done, total: step.total });
      break;
    case "backedUp": {
      const { file, bytes, tookMs } = step;
      log.info("made a backup before the upgrade", {
        backup: file,
        bytes,
        duration_ms: Math.round(tookMs),
      });
      break;
    }
    case "noBackup":
      logNoBackup(log, step);
      break;
    case "migrating":
      log.info("migrating the database", { count: step.copied, total: step.total });
      break;
    case "upgraded": {
      const { known, tookMs } = step;
      log.info("upgraded the database", { schema: known, duration_ms: Math.round(tookMs) });
    }
  }
  // The migration blocks this thread.
  log.flush();
}

function logNoBackup(log: Log, step: UpgradeStep & { step: "noBackup" }): void {
  if (step.reason === "unwanted") {
    log.info("no backup is made before the upgrade: --no-backup");
    return;
  }
  const { neededBytes, freeBytes } = step.room;
  log.warn("upgrade_without_backup", {
    needed_bytes: neededBytes,
    free_bytes: freeBytes,
  });
}

/** Undefined if the disk cannot be asked: a scrape shows the other figures all the same. */
function knownFreeBytes(path: string): number | undefined {
  try {
    return freeDiskBytes(path);
  } catch {
    return undefined;
  }
}

function alreadyRunning(path: string): StoreError {
  return new StoreError(
    `another gateway is running on this database: ${path}; stop it first, or give this one a database of its own`,
  );
}

interface ServedFiles {
  readonly path: string;
  readonly store: SqliteStore;
  readonly lock: InstanceLock;
  readonly log: Log;
}

/**
 * Ends the process if the database file or the lock file is removed or replaced. SQLite would go on and write charges to
 * the removed file. Without its lock file, a second gateway could start on the same database.
 */
function watchFiles(
  { path, store, lock, log }: ServedFiles,
  fatal: (message: string) => void,
): Timer {
  const checkWalSize = createWalSizeWarning(
    () => walSizeBytes(path),
    (bytes) => log.error("wal_not_emptied", { bytes }),
  );
  const timer = setInterval(() => {
    checkWalSize();
    const isDatabaseLost = store.isFileReplaced();
    if (!isDatabaseLost && !lock.isFileReplaced()) return;
    clearInterval(timer);
    const lost = isDatabaseLost ? "database file" : "database's lock file";
    fatal(`the ${lost} was removed or replaced while running`);
  }, FILE_WATCH_MS);
  return timer.unref();
}
