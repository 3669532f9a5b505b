import { lazyParts } from "../../lib/lazy.ts";
import { admin, type Admin } from "../admin/admin.ts";
import type { AuditReport } from "../audit/audit.ts";
import type { OnAuditProgress } from "../audit/auditProgress.ts";
import { reports, type Reports } from "../reports/reports.ts";
import { asAsync, type Async, type Steps } from "../steps.ts";
import { accountTable, type AccountReads } from "../tables/accounts.ts";
import { keyTable, type KeyReads } from "../tables/keys.ts";
import { ledgerTable, type LedgerReads } from "../tables/ledger.ts";
import { noticeCauses, type NoticeCauses } from "../tables/noticeCauses.ts";
import { noticeTable, type NoticeTable } from "../tables/notices.ts";
import { ownerTable, type OwnerTable } from "../tables/objectOwners.ts";
import { requestList, type ListRequests } from "../tables/requestList.ts";
import { requestTable, type RequestTable } from "../tables/requests.ts";
import {
  accountUsage,
  hourlyUsage,
  usageReport,
  type ReadAccountUsage,
  type ReadHourlyUsage,
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
  readonly accounts: Async<AccountReads>;
  readonly keys: Async<KeyReads>;
  readonly ledger: Async<LedgerReads>;
  readonly requests: Async<RequestTable>;
  readonly owners: Async<OwnerTable>;
  readonly vouchers: Async<VoucherReads>;
  readonly notices: Async<NoticeTable>;
  readonly noticeCauses: Async<NoticeCauses>;
  readonly admin: Async<Admin>;
  readonly reports: Async<Reports>;
  usage(by: UsageGrouping, filter: UsageFilter): Promise<UsageRow[]>;
  readonly usageOfAccount: ReadAccountUsage;
  readonly hourlyUsageOfAccount: ReadHourlyUsage;
  readonly requestsInSteps: ListRequests;
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
  const reads = <Part extends object>(part: Part) => asAsync(part, (make) => pool.read(make));
  const parts = lazyParts({
    accounts: () => reads(accountTable(queries)),
    keys: () => reads(keyTable(queries)),
    ledger: () => reads(ledgerTable(queries)),
    requests: () => reads(requestTable(queries)),
    owners: () => reads(ownerTable(queries)),
    vouchers: () => reads(voucherTable(queries)),
    reports: () => reads(reports(queries)),
    usageOfAccount: () => longRead(pool, accountUsage(queries)),
    hourlyUsageOfAccount: () => longRead(pool, hourlyUsage(queries)),
    requestsInSteps: () => longRead(pool, requestList(queries)),
    noticeCauses: () => reads(noticeCauses(queries)),
    notices: () => {
      const own = records === pool ? queries : new PostgresQueries(records);
      return asAsync(noticeTable(own), (make) => records.runOnce(make));
    },
    admin: () =>
      asAsync(
        admin(queries, (id) => askForReserve(queries, id)),
        (make) => pool.runOnce(make),
      ),
  });
  return Object.assign(parts, {
    usage: (by: UsageGrouping, filter: UsageFilter) =>
      pool.read(() => usageReport(queries, by, filter)),
    changeSignal: () => pool.read(() => changeSignal(queries)),
    auditInParallel: () => pool.read(() => auditServer(queries)),
    auditInBackground: (onProgress: OnAuditProgress) => startServerAudit(pool.address, onProgress),
    isFileReplaced: () => false as const,
    async close() {
      await pool.close();
      if (records !== pool) await records.close();
    },
  });
}

/** The same read. The pool looks after its waits. It hands over nothing before its first pause. */
function longRead<Args extends readonly unknown[], Result>(
  pool: PostgresPool,
  read: (...args: Args) => Steps<Result>,
): (...args: Args) => Steps<Result> {
  return (...args) => pool.inSteps(() => read(...args));
}

/** Tells the replicas that money of an account is needed: they give back what no request holds. */
function* askForReserve(queries: PostgresQueries, accountId: number): Steps<boolean> {
  yield* queries.rows("SELECT pg_notify('tollgate_wanted', $accountId)", {
    accountId: String(accountId),
  });
  return false;
}
