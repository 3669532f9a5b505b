import { lazyParts } from "../../lib/lazy.ts";
import { admin, type Admin } from "../admin/admin.ts";
import type { AuditReport } from "../audit/audit.ts";
import type { OnAuditProgress } from "../audit/auditProgress.ts";
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
import { auditServer, startServerAudit, type ServerAudit } from "./audit/audit.ts";
import { changeSignal } from "./changes.ts";
import { requireDurableServer } from "./durability.ts";
import { PostgresPool, type ServerAddress } from "./pool.ts";
import { requireSessions } from "./pooler.ts";
import type { UpgradePlan } from "../schema/migrationFiles.ts";
import { PostgresQueries } from "./queries.ts";
import { knownSchema, migrateServer, planUpgrade, type UpgradeWatch } from "./schema/migrations.ts";

/** The store on a PostgreSQL server. Its functions return promises. They reject with StoreError if it cannot be used. */
export interface ServerStore {
  readonly accounts: AccountReads;
  readonly keys: KeyReads;
  readonly ledger: LedgerReads;
  readonly requests: RequestTable;
  readonly owners: OwnerTable;
  readonly vouchers: VoucherReads;
  readonly notices: NoticeTable;
  readonly noticeCauses: NoticeCauses;
  readonly admin: Admin;
  readonly reports: Reports;
  usage(by: UsageGrouping, filter: UsageFilter): Promise<UsageRow[]>;
  readonly usageOfAccount: ReadPeriods;
  readonly hourlyUsageOfAccount: ReadPeriods;
  /** A text that differs after each commit to the database, by this process or by another one. */
  changeSignal(): Promise<string>;
  auditInParallel(): Promise<AuditReport>;
  /** The same audit on a connection of its own, with its progress. */
  auditInBackground(onProgress: OnAuditProgress): ServerAudit;
  /** A server replaces no file. */
  isFileReplaced(): false;
  close(): Promise<void>;
}

/** An open store, with its connections. */
export interface OpenServer {
  readonly pool: PostgresPool;
  readonly queries: PostgresQueries;
  readonly store: ServerStore;
}

/**
 * Opens the store, and migrates its schema if needed. `answerWithinMs`: how long a read may take. Rejects with StoreError if
 * the server cannot be reached or is not durable, and if the database has the schema of a newer version or foreign tables.
 */
export async function openServer(
  address: ServerAddress,
  answerWithinMs?: number,
  watch?: UpgradeWatch,
): Promise<OpenServer> {
  const pool = new PostgresPool(address, answerWithinMs);
  try {
    await pool.withStoreErrors(async () => {
      await requireSessions(pool.client, address);
      await requireDurableServer(pool.client);
      await migrateServer(pool.client, knownSchema, watch);
    });
  } catch (error) {
    await pool.close();
    throw error;
  }
  const queries = new PostgresQueries(pool);
  return { pool, queries, store: createStore(pool, queries) };
}

/** What `openServer` would do to the schema. Changes nothing. Rejects with StoreError. */
export async function planServerUpgrade(address: ServerAddress): Promise<UpgradePlan> {
  const pool = new PostgresPool(address);
  try {
    return await pool.withStoreErrors(async () => {
      await requireSessions(pool.client, address);
      return await planUpgrade(pool.client);
    });
  } finally {
    await pool.close();
  }
}

/** A store over these connections. `records` are those for what a read records: a standby takes no writes. */
export function createStore(
  pool: PostgresPool,
  queries: PostgresQueries,
  records = pool,
): ServerStore {
  const parts = lazyParts({
    accounts: () => accountTable(queries),
    keys: () => keyTable(queries),
    ledger: () => ledgerTable(queries),
    requests: () => requestTable(queries),
    owners: () => ownerTable(queries),
    vouchers: () => voucherTable(queries),
    reports: () => reports(queries),
    usageOfAccount: () => accountUsage(queries),
    hourlyUsageOfAccount: () => hourlyUsage(queries),
    noticeCauses: () => noticeCauses(queries),
    notices: () => noticeTable(records === pool ? queries : new PostgresQueries(records)),
    admin: () => admin(queries, (id) => askForReserve(queries, id)),
  });
  return Object.assign(parts, {
    usage: (by: UsageGrouping, filter: UsageFilter) => usageReport(queries, by, filter),
    changeSignal: () => changeSignal(queries),
    auditInParallel: () => auditServer(queries),
    auditInBackground: (onProgress: OnAuditProgress) => startServerAudit(pool.address, onProgress),
    isFileReplaced: () => false as const,
    async close() {
      await pool.close();
      if (records !== pool) await records.close();
    },
  });
}

/** Tells the replicas that money of an account is needed: they give back what no request holds. */
async function askForReserve(queries: PostgresQueries, accountId: number): Promise<boolean> {
  await queries.change("SELECT pg_notify('tollgate_wanted', $accountId)", {
    accountId: String(accountId),
  });
  return false;
}
