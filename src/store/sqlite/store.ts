import { lazy, lazyParts } from "../../lib/lazy.ts";
import { admin, type Admin } from "../admin/admin.ts";
import type { AuditReport } from "../audit/audit.ts";
import type { OnAuditProgress } from "../audit/auditProgress.ts";
import type { ChangeCounter, Connection } from "../connection.ts";
import { reports, type Reports } from "../reports/reports.ts";
import { accountTable, type AccountReads } from "../tables/accounts.ts";
import { keyTable, type KeyReads } from "../tables/keys.ts";
import { ledgerTable, type LedgerReads } from "../tables/ledger.ts";
import { noticeCauses, type NoticeCauses } from "../tables/noticeCauses.ts";
import { noticeTable, type NoticeTable } from "../tables/notices.ts";
import { ownerTable, type OwnerTable } from "../tables/objectOwners.ts";
import { requestTable, type RequestTable } from "../tables/requests.ts";
import {
  accountUsage,
  hourlyUsage,
  usageReport,
  type ReadPeriods,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from "../usage/usage.ts";
import { voucherTable, type VoucherReads } from "../tables/vouchers.ts";
import { auditStore } from "./audit/auditSqlite.ts";
import {
  auditStoreInParallel,
  startBackgroundAudit,
  type BackgroundAudit,
} from "./audit/backgroundAudit.ts";
import { checkAtStart } from "./audit/startCheck.ts";
import { changeCounter, changeSignal } from "./changes.ts";
import { fundsTable, type FundsTable } from "./funds.ts";
import { interruptRunning, type Interrupted } from "./interruptRunning.ts";
import { isGatewayRunning } from "./lock.ts";
import { createSchema } from "./schema/migrations.ts";
import {
  checkpointWal,
  connect,
  type Durability,
  type SqliteConnection,
  toStoreError,
} from "./sqlite.ts";

/** The store in a SQLite file. A read or a change blocks this thread. */
export interface SqliteStore {
  readonly accounts: AccountReads;
  readonly keys: KeyReads;
  readonly funds: FundsTable;
  readonly changes: ChangeCounter;
  /** A text that differs after each commit to the database, by this process or by another one. */
  changeSignal(): Promise<string>;
  readonly ledger: LedgerReads;
  readonly requests: RequestTable;
  readonly owners: OwnerTable;
  readonly vouchers: VoucherReads;
  readonly notices: NoticeTable;
  readonly noticeCauses: NoticeCauses;
  readonly admin: Admin;
  usage(by: UsageGrouping, filter: UsageFilter): Promise<UsageRow[]>;
  readonly usageOfAccount: ReadPeriods;
  readonly reports: Reports;
  readonly hourlyUsageOfAccount: ReadPeriods;
  /**
   * Sets all running requests to `interrupted`, without a charge. The caller holds the instance lock. Throws SQLite's
   * errors; then nothing is changed.
   */
  interruptRunning(): Interrupted;
  audit(): Promise<AuditReport>;
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

/**
 * Opens the store. Creates the database if needed; `upgradeStore` must have brought an older one to this program's schema.
 * `serving`: the caller holds the instance lock, and the schema and the last rows are checked. Throws StoreError.
 */
export function openStore(options: {
  path: string;
  durability: Durability;
  serving: boolean;
}): SqliteStore {
  const connection = connect(options.path, options.durability);
  try {
    const isNew = createSchema(
      connection,
      () => options.serving || !isGatewayRunning(options.path),
    );
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
  const signal = lazy(() => changeSignal(connection));
  const parts = lazyParts({
    accounts: () => accountTable(queries),
    keys: () => keyTable(queries),
    ledger: () => ledgerTable(queries),
    requests: () => requestTable(queries),
    owners: () => ownerTable(queries),
    vouchers: () => voucherTable(queries),
    notices: () => noticeTable(queries),
    noticeCauses: () => noticeCauses(queries),
    admin: () => admin(queries, (id) => releaseReserve(queries, path, id)),
    reports: () => reports(queries),
    usageOfAccount: () => accountUsage(queries),
    hourlyUsageOfAccount: () => hourlyUsage(queries),
    funds: () => fundsTable(connection),
    changes: () => changeCounter(connection),
  });
  return Object.assign(parts, {
    changeSignal: async () => signal()(),
    usage: (by: UsageGrouping, filter: UsageFilter) => usageReport(queries, by, filter),
    interruptRunning: () => interruptRunning(connection),
    audit: () => auditStore(connection, { atRest: !isGatewayRunning(path) }),
    auditInParallel: () =>
      auditStoreInParallel(connection, path, { atRest: !isGatewayRunning(path) }),
    auditInBackground: (onProgress: OnAuditProgress) =>
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
  });
}

/** Releases a reserve that a gateway left when it crashed. Returns false if a gateway is running. */
async function releaseReserve(
  queries: Connection,
  path: string,
  accountId: number,
): Promise<boolean> {
  // Also before the transaction, because the answer can take 200 ms, and the gateway must not wait for it.
  if (isGatewayRunning(path)) return false;
  return await queries.inTransaction(async (transaction) => {
    if (isGatewayRunning(path)) return false;
    await transaction.change("UPDATE accounts SET reserved = 0 WHERE id = $accountId", {
      accountId,
    });
    return true;
  });
}
