import { lazy } from "../lib/lazy.ts";
import { accountTable, type AccountTable } from "./tables/accounts.ts";
import {
  accountUsage,
  type ReadAccountUsage,
  usageReport,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from "./tables/usage.ts";
import { admin, type Admin } from "./admin/admin.ts";
import { auditStore, auditStoreInParallel, type AuditReport } from "./audit/audit.ts";
import { checkpointWal } from "./writeAheadLog.ts";
import { keyTable, type KeyTable } from "./tables/keys.ts";
import { ledgerTable, type LedgerTable } from "./tables/ledger.ts";
import { isGatewayRunning } from "./lock.ts";
import { migrate } from "./schema/migrations.ts";
import { ownerTable, type OwnerTable } from "./tables/objectOwners.ts";
import {
  interruptRunning,
  requestTable,
  type Interrupted,
  type RequestTable,
} from "./tables/requests.ts";
import { connect, toStoreError, type Connection, type Durability } from "./sqlite.ts";
import { checkAtStart } from "./startCheck.ts";

/**
 * The face of the store: what is read, and what a person changes. A serving gateway writes by its Writer, but for what it
 * does before it serves.
 */
export interface Store {
  readonly accounts: Pick<AccountTable, "findOrThrow" | "find" | "list">;
  readonly keys: Pick<
    KeyTable,
    "findOrThrow" | "find" | "findByHash" | "funds" | "fundsWithSettled" | "list" | "newestOfChain"
  >;
  readonly ledger: Pick<LedgerTable, "history">;
  readonly requests: RequestTable;
  readonly owners: OwnerTable;
  readonly admin: Admin;
  usage(by: UsageGrouping, filter: UsageFilter): UsageRow[];
  readonly usageOfAccount: ReadAccountUsage;
  /**
   * Ends what an earlier life of the gateway left running. The caller holds the instance lock. Throws what SQLite
   * does, and nothing is ended then.
   */
  interruptRunning(): Interrupted;
  audit(): AuditReport;
  /** The same with two threads, in half the time. */
  auditInParallel(): Promise<AuditReport>;
  /** There was nothing in it when it was opened. */
  readonly isNew: boolean;
  /** Throws when the store cannot be read. */
  requireReadable(): void;
  /** True once the file at the store's path is not the opened one any more. */
  isFileReplaced(): boolean;
  /** True where the database's file alone has all that was committed: its log beside it is empty. */
  close(): boolean;
}

/**
 * Opens the store, made and brought to this version's schema if need be. `serving`: the caller holds
 * the instance lock, and gets no store of which the schema or the last entries are not in order. Throws StoreError.
 */
export function openStore(options: {
  path: string;
  durability: Durability;
  serving: boolean;
}): Store {
  const connection = connect(options.path, options.durability);
  try {
    const isNew = migrate(connection, () => options.serving || !isGatewayRunning(options.path));
    if (options.serving) checkAtStart(connection, options.path);
    return storeOver(connection, { ...options, isNew });
  } catch (error) {
    connection.sqlite.close();
    throw toStoreError(options.path, error);
  }
}

/** Each part prepares its statements when it is first used: a command, or a start, needs only a few. */
function storeOver(
  connection: Connection,
  { path, serving, isNew }: { path: string; serving: boolean; isNew: boolean },
): Store {
  const parts = {
    accounts: lazy(() => accountTable(connection)),
    keys: lazy(() => keyTable(connection)),
    ledger: lazy(() => ledgerTable(connection)),
    requests: lazy(() => requestTable(connection)),
    owners: lazy(() => ownerTable(connection)),
    admin: lazy(() => admin(connection)),
    usageOfAccount: lazy(() => accountUsage(connection)),
  };
  return {
    get accounts() {
      return parts.accounts();
    },
    get keys() {
      return parts.keys();
    },
    get ledger() {
      return parts.ledger();
    },
    get requests() {
      return parts.requests();
    },
    get owners() {
      return parts.owners();
    },
    get admin() {
      return parts.admin();
    },
    usage: (by, filter) => usageReport(connection, by, filter),
    get usageOfAccount() {
      return parts.usageOfAccount();
    },
    interruptRunning: () => interruptRunning(connection),
    audit: () => auditStore(connection, { atRest: !isGatewayRunning(path) }),
    auditInParallel: () =>
      auditStoreInParallel(connection, path, { atRest: !isGatewayRunning(path) }),
    isNew,
    requireReadable() {
      connection.sqlite.query("SELECT 1 FROM accounts LIMIT 1").get();
    },
    isFileReplaced: () => connection.file.isReplaced(),
    close() {
      // Behind a command SQLite itself does so, where nobody else is at the database.
      const log = serving ? checkpointWal(connection) : "kept";
      // A second try may succeed though the first one lost pages, and the log with them would be removed.
      if (log !== "failed") connection.sqlite.close(true);
      return log === "empty";
    },
  };
}

export { available, type AccountRow } from "./tables/accounts.ts";
export type { Actor } from "./schema/schema.ts";
export type { AuditReport } from "./audit/audit.ts";
export { backUp, type Backup } from "./backup/backup.ts";
export { startFolding, type Folding } from "./writer/folding.ts";
export {
  emptyFileProblem,
  missingFolderProblem,
  hardLinkProblem,
  STORE_SUFFIXES,
} from "./databaseFile.ts";
export type { Funds, KeyChanges, KeyRow, KeySecretRow, SettledFunds } from "./tables/keys.ts";
export type { HistoryRow } from "./tables/ledger.ts";
export { takeInstanceLock, type InstanceLock } from "./lock.ts";
export { createWalSizeWarning, WAL_BYTES_MAX, walSizeBytes } from "./writeAheadLog.ts";
export { storeFiles } from "./databaseFile.ts";
export { inspectStore, type StoreInspection } from "./audit/inspection.ts";
export type { OpenedRequest, WriteOperation, WriteResult } from "./writer/operations.ts";
export { restore, type Restored } from "./backup/restore.ts";
export type { ReceiptRow, RequestRow } from "./tables/requests.ts";
export type { AttemptRecord, RequestSettlement } from "./writer/settle.ts";
export { toStoreError, refuseOrphanedWal, StoreError } from "./sqlite.ts";
export {
  usageGroupings,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from "./tables/usage.ts";
export {
  isBlocked,
  startWriter,
  WriteError,
  type Blocked,
  type Writer,
} from "./writer/writerClient.ts";
