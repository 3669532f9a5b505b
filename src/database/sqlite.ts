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
  startQueue,
  SharedWriter,
  startWriter,
  takeInstanceLock,
  toStoreError,
  walSizeBytes,
  type InstanceLock,
  upgradeStore,
  type SqliteStore,
  type UpgradeStep,
  type WriterLink,
} from "../store/open.ts";
import { StoreError, StoppedError } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";

/** How often the gateway checks that database and lock are still the files that it opened, and the size of the WAL. */
const FILE_WATCH_MS = 5000;

/** The services that the file itself needs. */
type FileServices = Pick<DatabaseServices, "log" | "upgrade" | "fatal">;

/** Opens the SQLite file of the one gateway that serves from it, in one process. Rejects with StoreError. */
export async function openSqliteDatabase(
  database: SqliteDatabase,
  services: DatabaseServices,
): Promise<ServedDatabase> {
  const { path, durability } = database;
  const file = await openServedFile(database, services);
  const writer = startWriter(
    { path, durability },
    (message) => services.fatal(message),
    (tookMs) => services.metrics.committed(tookMs),
    services.clock,
  );
  return served(database, services, {
    store: file.store,
    writer,
    isAlone: true,
    close: () => file.close(writer),
  });
}

/** The writer in the main process, as a serving process has it. */
export interface MainWriter extends WriterLink {
  /** Calls the listener when another process needs money of an account. */
  onWanted(listener: (accountId: number) => void): void;
}

/** Opens the SQLite file that the main process has opened, for one of its serving processes. Throws StoreError. */
export function openSqliteOfProcess(
  database: SqliteDatabase,
  services: DatabaseServices,
  main: MainWriter,
): ServedDatabase {
  const { path, durability } = database;
  const store = openStore({ path, durability, serving: false });
  const writer = startQueue(
    main,
    (message) => services.fatal(message),
    (tookMs) => services.metrics.committed(tookMs),
    services.clock,
  );
  const opened = served(database, services, {
    store,
    writer,
    isAlone: false,
    async close() {
      await writer.close();
      store.closeNow();
    },
  });
  main.onWanted((accountId) => opened.holds.wanted(accountId));
  return opened;
}

/** The file and its one writer, in the main process of a gateway with several serving processes. */
export interface FileOfProcesses {
  readonly writer: SharedWriter;
  /** Closes the file. All serving processes should have ended. */
  close(): Promise<void>;
}

/** Opens the SQLite file for serving processes. Rejects with StoreError. */
export async function openFileOfProcesses(
  database: SqliteDatabase,
  services: FileServices,
): Promise<FileOfProcesses> {
  const file = await openServedFile(database, services);
  const writer = new SharedWriter(database, (message) => services.fatal(message));
  return { writer, close: () => file.close(writer) };
}

interface OpenedParts extends Pick<ServedDatabase, "writer" | "close"> {
  readonly store: SqliteStore;
  readonly isAlone: boolean;
}

function served(
  { path }: SqliteDatabase,
  services: DatabaseServices,
  { store, writer, isAlone, close }: OpenedParts,
): ServedDatabase {
  const { clock, random } = services;
  const holds = new Holds({
    writer,
    clock,
    random,
    changes: () => store.changes.current(),
    isAlone,
    refuse: () => services.refuse(),
  });
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
      holds.close();
      await close();
    },
  };
}

interface ServedFile {
  readonly store: SqliteStore;
  /** Closes the writer first. */
  close(writer: { close(): unknown; readonly isBroken: boolean }): Promise<void>;
}

/** Opens the file, with its lock and its watch, and ends what an earlier run left open. Rejects with StoreError. */
async function openServedFile(
  database: SqliteDatabase,
  services: FileServices,
): Promise<ServedFile> {
  const { log } = services;
  const { path } = database;
  const { lock, store, interrupted } = await openLocked(database, services);
  // Normal at a first start. Later it means that the database file was lost or the path has changed.
  if (store.isNew)
    log.info("created a new database: none existed at this path", { database: path });
  if (interrupted.count > 0) {
    const fields = { count: interrupted.count, held_rub: formatRoubles(interrupted.reserved) };
    log.warn("previous_run_interrupted", fields);
  }
  const watch = watchFiles({ path, store, lock, log }, (message) => services.fatal(message));
  return {
    store,
    async close(writer) {
      clearInterval(watch);
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
async function openLocked({ path, durability }: SqliteDatabase, services: FileServices) {
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
