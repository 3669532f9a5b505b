import { KnownKeys } from "../auth/knownKeys.ts";
import { LocalHolds } from "../billing/localHolds.ts";
import type { SqliteDatabase } from "../config/schema.ts";
import { formatRoubles } from "../lib/money.ts";
import { oneReplica } from "../limits/rateLimits.ts";
import {
  createWalSizeWarning,
  hardLinkProblem,
  openStore,
  startWriter,
  StoreError,
  takeInstanceLock,
  toStoreError,
  walSizeBytes,
  type InstanceLock,
  type MigrationProgress,
  type SqliteStore,
} from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";

/** How often the gateway checks that database and lock are still the files that it opened, and the size of the WAL. */
const FILE_WATCH_MS = 5000;

/** Opens the SQLite file of the one gateway that serves from it. Throws StoreError. */
export function openSqliteDatabase(
  database: SqliteDatabase,
  services: DatabaseServices,
): ServedDatabase {
  const { clock, log, metrics } = services;
  const { path, durability } = database;
  const { lock, store, interrupted } = openLocked(database, ({ copied, total }) => {
    log.info("migrating the database", { count: copied, total });
    log.flush();
  });
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
  const holds = new LocalHolds({ store, writer, clock, refuse: () => services.refuse() });
  const watch = watchFiles({ path, store, lock, log }, (message) => services.fatal(message));
  return {
    store,
    writer,
    holds,
    knownKeys: new KnownKeys(store),
    changeNotice: async (change) =>
      (await writer.write({ kind: "notice", change })).claimed === true,
    replicas: oneReplica,
    requireReadable: () => store.requireReadable(),
    figures: () => ({ walBytes: walSizeBytes(path) }),
    async close() {
      clearInterval(watch);
      holds.close();
      await writer.close();
      // After a failed sync nothing may be written, and closing the database writes.
      if (!writer.isBroken && !store.close()) log.warn("wal_kept");
      lock.release();
    },
  };
}

/** Takes the instance lock, opens the store, and ends requests that an earlier run left open. Releases all on failure. */
function openLocked(
  { path, durability }: SqliteDatabase,
  onMigration: (progress: MigrationProgress) => void,
) {
  const lock = takeInstanceLock(path);
  if (!lock) throw alreadyRunning(path);
  let store: SqliteStore | undefined;
  try {
    const problem = hardLinkProblem(path);
    if (problem !== undefined) throw new StoreError(problem);
    store = openStore({ path, durability, serving: true, onMigration });
    return { lock, store, interrupted: store.interruptRunning() };
  } catch (error) {
    store?.close();
    lock.release();
    throw toStoreError(path, error);
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
