import type { CopiedDatabase, CopyProgress } from "./postgres/copyDatabase.ts";
import type { ServerInspection } from "./postgres/inspection.ts";
import type { ServerAddress } from "./postgres/pool.ts";
import type { ReplicaOptions, ReplicaStore } from "./postgres/replica.ts";
import type { UpgradeWatch } from "./postgres/schema/migrations.ts";
import type { OpenStandby, StandbyReading } from "./postgres/standby.ts";
import type { UpgradePlan } from "./schema/migrationFiles.ts";
import type { Store } from "./store.ts";

// Opens a store and its writer, and works on whole databases: backups, upgrades, copies, inspections.

export type { UpgradePlan } from "./schema/migrationFiles.ts";
export { backUp, recordBackup, type Backup } from "./sqlite/backup/backup.ts";
export { startFolding, type Folding } from "./writer/folding.ts";
export {
  emptyFileProblem,
  FREE_BYTES_MIN,
  freeDiskBytes,
  hardLinkProblem,
  missingFolderProblem,
  STORE_SUFFIXES,
  storeFiles,
} from "./sqlite/databaseFile.ts";
export {
  needsUpgrade,
  planFileUpgrade,
  upgradeStore,
  type UpgradeRoom,
  type UpgradeStep,
} from "./sqlite/schema/upgrade.ts";
export { takeInstanceLock, type InstanceLock } from "./sqlite/lock.ts";
export { inspectStore, type StoreInspection } from "./sqlite/audit/inspection.ts";
export type { ServerAddress } from "./postgres/pool.ts";
export { durabilityProblems } from "./postgres/durability.ts";
export type { CopiedDatabase, CopyProgress } from "./postgres/copyDatabase.ts";
export type { ServerInspection } from "./postgres/inspection.ts";
export type { ClockSkew } from "./postgres/writer/lease.ts";
export type { ReplicaListener } from "./postgres/replica.ts";
export type { UpgradeWatch } from "./postgres/schema/migrations.ts";
export { restore, type Restored } from "./sqlite/backup/restore.ts";
export { openStore, type SqliteStore } from "./sqlite/store.ts";
export {
  createWalSizeWarning,
  isDamage,
  refuseOrphanedWal,
  toStoreError,
  WAL_BYTES_MAX,
  walSizeBytes,
} from "./sqlite/sqlite.ts";
export type { Interrupted } from "./sqlite/interruptRunning.ts";
export { FileWriter, type SentBatch, type WrittenFile } from "./sqlite/writer/fileWriter.ts";
export { SharedWriter } from "./sqlite/writer/sharedWriter.ts";
export { startQueue, startWriter, type WriterLink } from "./sqlite/writer/startWriter.ts";

/** Inspects a PostgreSQL server for `doctor`. Rejects with StoreError if it cannot be read. */
export async function inspectServer(address: ServerAddress): Promise<ServerInspection> {
  const { inspectServer } = await import("./postgres/inspection.ts");
  return await inspectServer(address);
}

/** Copies the records of a SQLite file into an empty database on a PostgreSQL server. Rejects with StoreError. */
export async function copyDatabase(
  path: string,
  address: ServerAddress,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopiedDatabase> {
  const { copyDatabase } = await import("./postgres/copyDatabase.ts");
  return await copyDatabase(path, address, onProgress);
}

/**
 * Opens the store on a PostgreSQL server for a command, and migrates its schema if needed. With a standby the reads go there
 * where they can. Rejects with StoreError.
 */
export async function openServerStore(
  address: ServerAddress,
  watch?: UpgradeWatch,
  standby?: ServerAddress,
): Promise<Store> {
  const { openServer } = await import("./postgres/store.ts");
  const server = await openServer(address, undefined, watch);
  if (standby === undefined) return server.store;
  const { StoreWithStandby } = await import("./postgres/standbyReads.ts");
  return new StoreWithStandby(server, standby);
}

/** Inspects a hot standby for `doctor`. Rejects with StoreError if it cannot answer reports. */
export async function inspectStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<StandbyReading> {
  const { inspectStandby } = await import("./postgres/standby.ts");
  return await inspectStandby(standby, primary);
}

/** Opens a hot standby for reports. `primary` is the database that it repeats. Rejects with StoreError. */
export async function openStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<OpenStandby> {
  const { openStandby } = await import("./postgres/standby.ts");
  return await openStandby(standby, primary);
}

/** What the next opening of a database on a PostgreSQL server does to its schema. Changes nothing. Rejects with StoreError. */
export async function planServerUpgrade(address: ServerAddress): Promise<UpgradePlan> {
  const { planServerUpgrade } = await import("./postgres/store.ts");
  return await planServerUpgrade(address);
}

/** Opens the database on a PostgreSQL server for a gateway that serves, as one of its replicas. Rejects with StoreError. */
export async function openReplica(
  address: ServerAddress,
  options: ReplicaOptions,
): Promise<ReplicaStore> {
  const { openReplica } = await import("./postgres/replica.ts");
  return await openReplica(address, options);
}
