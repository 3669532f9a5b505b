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
import { hourlyUsage, type ReadHourlyUsage } from "./tables/hourlyUsage.ts";
import { admin, type Admin } from "./admin/admin.ts";
import type { AuditReport } from "./audit/audit.ts";
import { auditRecords, auditStore, auditStoreInParallel } from "./sqlite/audit/auditSqlite.ts";
import type { OnAuditProgress } from "./audit/auditProgress.ts";
import { startBackgroundAudit, type BackgroundAudit } from "./sqlite/audit/backgroundAudit.ts";
import { changeCounter, changeSignal } from "./sqlite/changes.ts";
import type { ChangeCounter } from "./connection.ts";
import { fundsTable, type FundsTable } from "./sqlite/funds.ts";
import { checkpointWal } from "./sqlite/writeAheadLog.ts";
import { keyTable, type KeyTable } from "./tables/keys.ts";
import { ledgerTable, type LedgerTable } from "./tables/ledger.ts";
import { isGatewayRunning } from "./sqlite/lock.ts";
import { migrate, refuseMigration, type MigrationProgress } from "./sqlite/schema/migrations.ts";
import { schemaProblems } from "./sqlite/schema/schemaCheck.ts";
import { ownerTable, type OwnerTable } from "./tables/objectOwners.ts";
import { reports, type Reports } from "./reports/reports.ts";
import { requestPages, type ReadRequestPage } from "./tables/requestPages.ts";
import { interruptRunning, type Interrupted } from "./sqlite/interruptRunning.ts";
import type { Connection } from "./connection.ts";
import { atOnce, runAtOnce, type AtOnce, type Steps } from "./steps.ts";
import { requestTable, type RequestTable } from "./tables/requests.ts";
import { connect, toStoreError, type SqliteConnection, type Durability } from "./sqlite/sqlite.ts";
import type { ServerInspection } from "./postgres/inspection.ts";
import type { CopiedDatabase, CopyProgress } from "./postgres/copyDatabase.ts";
import type { ServerAddress } from "./postgres/pool.ts";
import type { ReplicaOptions, ReplicaStore } from "./postgres/replica.ts";
import type { ServerStore } from "./postgres/store.ts";
import { checkAtStart } from "./sqlite/audit/startCheck.ts";
import { voucherTable, type VoucherTable } from "./tables/vouchers.ts";

/** The store in a SQLite file. Its functions return at once. */
export interface SqliteStore {
  readonly accounts: AtOnce<Pick<AccountTable, "findOrThrow" | "find" | "list">>;
  readonly keys: AtOnce<
    Pick<KeyTable, "findOrThrow" | "find" | "findByHash" | "list" | "newestOfChain">
  >;
  readonly funds: FundsTable;
  readonly changes: ChangeCounter;
  /** A text that differs after each commit to the database, by this process or by another one. */
  changeSignal(): string;
  readonly ledger: AtOnce<Pick<LedgerTable, "history">>;
  readonly requests: AtOnce<RequestTable>;
  readonly owners: AtOnce<OwnerTable>;
  readonly vouchers: AtOnce<Pick<VoucherTable, "findByHash" | "findOrThrow" | "list" | "count">>;
  readonly admin: AtOnce<Admin>;
  usage(by: UsageGrouping, filter: UsageFilter): UsageRow[];
  readonly usageOfAccount: ReadAccountUsage;
  readonly reports: AtOnce<Reports>;
  readonly hourlyUsageOfAccount: ReadHourlyUsage;
  readonly requestsOfAccount: ReadRequestPage;
  /**
   * Sets all running requests to `interrupted`, without a charge. The caller holds the instance lock. Throws SQLite's
   * errors; then nothing is changed.
   */
  interruptRunning(): Interrupted;
  audit(): AuditReport;
  /** The same audit in two threads and half the time. */
  auditInParallel(): Promise<AuditReport>;
  /** The same audit in other threads, with its progress. */
  auditInBackground(onProgress: OnAuditProgress): BackgroundAudit;
  /** True if the database was created, or was empty when it was opened. */
  readonly isNew: boolean;
  /** Throws when the store cannot be read. */
  requireReadable(): void;
  /** True when the path names another file than the opened one, or none. */
  isFileReplaced(): boolean;
  /** Returns true if the database file alone has all commits, and its WAL is empty. */
  close(): boolean;
}

/** The same functions. They may return promises. */
type EitherWay<Part> = {
  readonly [Name in keyof Part]: Part[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Result | Promise<Result>
    : Part[Name];
};

/**
 * What other folders use of the store on either engine: reads and the changes of commands. A serving gateway writes with
 * its Writer. A SQLite store answers at once, a store on PostgreSQL with promises.
 */
export interface Store
  extends
    EitherWay<Pick<SqliteStore, "changeSignal" | "usage">>,
    Pick<
      SqliteStore,
      | "usageOfAccount"
      | "hourlyUsageOfAccount"
      | "requestsOfAccount"
      | "auditInParallel"
      | "auditInBackground"
      | "isFileReplaced"
    > {
  readonly accounts: EitherWay<SqliteStore["accounts"]>;
  readonly keys: EitherWay<SqliteStore["keys"]>;
  readonly ledger: EitherWay<SqliteStore["ledger"]>;
  readonly requests: EitherWay<SqliteStore["requests"]>;
  readonly owners: EitherWay<SqliteStore["owners"]>;
  readonly vouchers: EitherWay<SqliteStore["vouchers"]>;
  readonly admin: EitherWay<SqliteStore["admin"]>;
  readonly reports: EitherWay<SqliteStore["reports"]>;
  close(): boolean | Promise<void>;
}

/**
 * Opens the store. Creates the database and migrates its schema if needed. `serving`: the caller holds the instance
 * lock, and the schema and the last rows are checked. `onMigration` is called while an older database is migrated. Throws
 * StoreError.
 */
export function openStore(options: {
  path: string;
  durability: Durability;
  serving: boolean;
  onMigration?: (progress: MigrationProgress) => void;
}): SqliteStore {
  const connection = connect(options.path, options.durability);
  try {
    const isNew = migrate(connection, {
      mayMigrate: () => options.serving || !isGatewayRunning(options.path),
      schemaProblems: (applied) => schemaProblems(connection.sqlite, applied),
      audit: () => auditRecords(connection),
      refuse: refuseMigration,
      onProgress: options.onMigration,
    });
    if (options.serving) checkAtStart(connection, options.path);
    return createStore(connection, { ...options, isNew });
  } catch (error) {
    connection.sqlite.close();
    throw toStoreError(options.path, error);
  }
}

/** Each part prepares its statements at its first use: a command needs only a few of them. */
function createStore(
  connection: SqliteConnection,
  { path, serving, isNew }: { path: string; serving: boolean; isNew: boolean },
): SqliteStore {
  const { queries } = connection;
  const parts = {
    accounts: lazy(() => atOnce(accountTable(queries))),
    keys: lazy(() => atOnce(keyTable(queries))),
    ledger: lazy(() => atOnce(ledgerTable(queries))),
    requests: lazy(() => atOnce(requestTable(queries))),
    owners: lazy(() => atOnce(ownerTable(queries))),
    vouchers: lazy(() => atOnce(voucherTable(queries))),
    admin: lazy(() => atOnce(admin(queries, (id) => releaseReserve(queries, path, id)))),
    usageOfAccount: lazy(() => accountUsage(queries)),
    reports: lazy(() => atOnce(reports(queries))),
    hourlyUsageOfAccount: lazy(() => hourlyUsage(queries)),
    requestsOfAccount: lazy(() => requestPages(queries)),
    funds: lazy(() => fundsTable(connection)),
    changes: lazy(() => changeCounter(connection)),
    changeSignal: lazy(() => changeSignal(connection)),
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
    get funds() {
      return parts.funds();
    },
    get changes() {
      return parts.changes();
    },
    changeSignal: () => parts.changeSignal()(),
    get requests() {
      return parts.requests();
    },
    get owners() {
      return parts.owners();
    },
    get vouchers() {
      return parts.vouchers();
    },
    get admin() {
      return parts.admin();
    },
    usage: (by, filter) => runAtOnce(usageReport(queries, by, filter)),
    get usageOfAccount() {
      return parts.usageOfAccount();
    },
    get reports() {
      return parts.reports();
    },
    get hourlyUsageOfAccount() {
      return parts.hourlyUsageOfAccount();
    },
    get requestsOfAccount() {
      return parts.requestsOfAccount();
    },
    interruptRunning: () => interruptRunning(connection),
    audit: () => auditStore(connection, { atRest: !isGatewayRunning(path) }),
    auditInParallel: () =>
      auditStoreInParallel(connection, path, { atRest: !isGatewayRunning(path) }),
    auditInBackground: (onProgress) =>
      startBackgroundAudit(path, { atRest: !isGatewayRunning(path) }, onProgress),
    isNew,
    requireReadable() {
      connection.sqlite.query("SELECT 1 FROM accounts LIMIT 1").get();
    },
    isFileReplaced: () => connection.file.isReplaced(),
    close() {
      // After a command SQLite does it at the close, if no other connection is open.
      const wal = serving ? checkpointWal(connection) : "kept";
      // Closing would checkpoint again. That may succeed after the first try lost pages, and remove the WAL.
      if (wal !== "failed") connection.sqlite.close(true);
      return wal === "empty";
    },
  };
}

/** Releases a reserve that a gateway left when it crashed. Returns false if a gateway is running. */
function* releaseReserve(queries: Connection, path: string, accountId: number): Steps<boolean> {
  // Also before the transaction, because the answer can take 200 ms, and the gateway must not wait for it.
  if (isGatewayRunning(path)) return false;
  return yield* queries.inTransaction(function* (transaction) {
    if (isGatewayRunning(path)) return false;
    yield* transaction.rows("UPDATE accounts SET reserved = 0 WHERE id = $accountId", {
      accountId,
    });
    return true;
  });
}

export { MoneyReservedError, type Admin } from "./admin/admin.ts";
export { available, type AccountRow } from "./tables/accounts.ts";
export type { Actor } from "./schema/schema.ts";
export type { AuditReport } from "./audit/audit.ts";
export type { BackgroundAudit } from "./sqlite/audit/backgroundAudit.ts";
export { backUp, type Backup } from "./sqlite/backup/backup.ts";
export { startFolding, type Folding } from "./writer/folding.ts";
export {
  emptyFileProblem,
  storeFiles,
  missingFolderProblem,
  hardLinkProblem,
  STORE_SUFFIXES,
} from "./sqlite/databaseFile.ts";
export type { ChangeCounter } from "./connection.ts";
export type { AccountFunds, ChainFunds, FundsTable } from "./sqlite/funds.ts";
export type { KeyChanges, KeyRow, KeySecretRow } from "./tables/keys.ts";
export type { HistoryRow } from "./tables/ledger.ts";
export type { MigrationProgress } from "./sqlite/schema/migrations.ts";
export { takeInstanceLock, type InstanceLock } from "./sqlite/lock.ts";
export { createWalSizeWarning, WAL_BYTES_MAX, walSizeBytes } from "./sqlite/writeAheadLog.ts";
export { inspectStore, type StoreInspection } from "./sqlite/audit/inspection.ts";
export type { AccountEffect, ChainEffect, GroupEffect, ReserveTarget } from "./writer/effects.ts";
export {
  amountToWire,
  type AdmittedRecord,
  type AttemptRecord,
  type RecordedPrices,
  type RequestRecord,
} from "./writer/requestRecord.ts";
export type { Figures } from "./reports/figures.ts";
export type { OverviewReport, SampledLatencies } from "./reports/reports.ts";
export { durabilityProblems } from "./postgres/durability.ts";
export type { CopiedDatabase, CopyProgress } from "./postgres/copyDatabase.ts";
export type { ServerInspection } from "./postgres/inspection.ts";
export type { ReplicaListener } from "./postgres/replica.ts";
export type { ProviderFigures } from "./reports/providersReport.ts";
export type { ListedAccount, ListedKey } from "./reports/directory.ts";
export type { UsageReport as ReportedUsage } from "./reports/usageReport.ts";
export { restore, type Restored } from "./sqlite/backup/restore.ts";
export type { PageFilter, PagePosition } from "./tables/requestPages.ts";
export type { ReceiptRow, RequestRow } from "./tables/requests.ts";
export { stepByStep, type Awaited, type Steps } from "./steps.ts";
export { redeemability } from "./writer/redemption.ts";
export type { VoucherRow } from "./tables/vouchers.ts";
export { toStoreError, refuseOrphanedWal } from "./sqlite/sqlite.ts";
export { NotFoundError, StoreError } from "./storeError.ts";
export {
  usageGroupings,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from "./tables/usage.ts";
export {
  COMMIT_STEP_MS,
  COMMIT_WITHIN_MS,
  isBlocked,
  WriteError,
  type BatchPlanner,
  type EndingRequest,
  type Writer,
} from "./writer/writeQueue.ts";
export { startWriter } from "./sqlite/writer/startWriter.ts";

/** Inspects a PostgreSQL server for `doctor`. Rejects with StoreError if it cannot be read. */
export async function inspectServer(url: string, shownUrl: string): Promise<ServerInspection> {
  const { inspectServer } = await import("./postgres/inspection.ts");
  return await inspectServer(url, shownUrl);
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

/** Opens the store on a PostgreSQL server for a command, and migrates its schema if needed. Rejects with StoreError. */
export async function openServerStore(address: ServerAddress): Promise<ServerStore> {
  const { openServer } = await import("./postgres/store.ts");
  return (await openServer(address)).store;
}

/** Opens the database on a PostgreSQL server for a gateway that serves, as one of its replicas. Rejects with StoreError. */
export async function openReplica(
  address: ServerAddress,
  options: ReplicaOptions,
): Promise<ReplicaStore> {
  const { openReplica } = await import("./postgres/replica.ts");
  return await openReplica(address, options);
}
