import type { DaySpan } from "../lib/clock.ts";
import type { ReportSpan } from "../contract/operator/span.ts";
import type { LedgerChange, LedgerChangeResult } from "./admin/admin.ts";
import type { Rotated, Rotation } from "./admin/keyChanges.ts";
import type { Refunded, RefundRequest } from "./admin/refund.ts";
import type { NewVouchers, Revoked } from "./admin/vouchers.ts";
import type { AuditReport, AuditWatch } from "./audit/audit.ts";
import type { Pause } from "./connection.ts";
import type {
  AccountSearch,
  KeySearch,
  Listed,
  ListedAccount,
  ListedKey,
} from "./reports/directory.ts";
import type { ProvidersReport } from "./reports/providersReport.ts";
import type { OverviewReport } from "./reports/reports.ts";
import type { UsageReport } from "./reports/usageReport.ts";
import type { Actor } from "./schema/schema.ts";
import type { AccountChanges, AccountRow } from "./tables/accounts.ts";
import type { KeyChanges, KeyRow, KeySecretRow, NewKey } from "./tables/keys.ts";
import type { HistoryRow } from "./tables/ledger.ts";
import type { ExpiringKey, LowAccounts, LowLimits, NextAccounts } from "./tables/noticeCauses.ts";
import type { AuditedBy, NoticeChange, OpenNotice } from "./tables/notices.ts";
import type { OwnedObject } from "./tables/objectOwners.ts";
import type { ReceiptRow } from "./tables/receipts.ts";
import type { PageRequest, RequestFilter, RequestPage } from "./tables/requestList.ts";
import type { VoucherFilter, VoucherRow } from "./tables/vouchers.ts";
import type { PeriodUsage, UsageFilter, UsageGrouping, UsageRow } from "./usage/usage.ts";
import type { AttemptRecord } from "./writer/requestRecord.ts";

/**
 * The records of a gateway: what is read, and what commands change. `open.ts` opens a store on SQLite or PostgreSQL. A serving
 * gateway writes with its Writer.
 *
 * Everything is a promise. On SQLite a read blocks this thread. What is not there is undefined, and `OrThrow` rejects with
 * NotFoundError. A database that cannot be used rejects with SQLite's error or with StoreError. Amounts are nano-roubles, and
 * times are milliseconds since 1970.
 */
export interface Store {
  readonly accounts: Accounts;
  readonly keys: Keys;
  readonly ledger: Ledger;
  readonly requests: Requests;
  readonly owners: Owners;
  readonly vouchers: Vouchers;
  readonly usage: Usage;
  readonly reports: Reports;
  readonly notices: Notices;
  readonly noticeCauses: NoticeCauses;
  readonly admin: Admin;
  /** A text that differs after each commit to the database, by this process or by another one. */
  changeSignal(): Promise<string>;
  /** Checks all records on connections of its own, on SQLite in two other threads. */
  audit(watch?: AuditWatch): Promise<AuditReport>;
  /** True if the path names another SQLite file than the opened one, or none. A server replaces no file. */
  isFileReplaced(): boolean;
  /** Where the reads of this store go. Undefined: to the database itself. */
  readonly standby?: () => Promise<StandbyState>;
  close(): Promise<void>;
}

/** A hot standby, for the operator who looks at its figures. */
export interface StandbyState {
  readonly shownUrl: string;
  /** How far the standby is behind. Undefined: nobody knows. */
  readonly lagMs: number | undefined;
  /** Why the primary answers meanwhile. Undefined: the standby answers. */
  readonly problem: string | undefined;
}

export interface Accounts {
  find(name: string): Promise<AccountRow | undefined>;
  findOrThrow(name: string): Promise<AccountRow>;
  /** By name. */
  list(): Promise<AccountRow[]>;
}

export interface Keys {
  find(publicId: string): Promise<KeyRow | undefined>;
  findOrThrow(publicId: string): Promise<KeyRow>;
  /** Finds a key by the SHA-256 of its secret: one point read. */
  findByHash(hash: Uint8Array): Promise<KeySecretRow | undefined>;
  /** The keys of an account, or of all, oldest first. */
  list(account: string | undefined): Promise<KeyRow[]>;
  /** The last key of the rotation chain. */
  newestOfChain(key: Pick<KeyRow, "accountId" | "firstKeyId">): Promise<KeyRow>;
}

export interface Ledger {
  /** Newest first. `before`: only rows with a smaller number. */
  history(accountId: number, limit: number, before?: number): Promise<HistoryRow[]>;
}

export interface Requests {
  /**
   * Reads a page of requests, the one recorded last first. A request is recorded when it ends, or when it is open for a
   * second, and keeps its place. So each request that was recorded at the first page appears exactly once in the pages, and
   * later ones do not appear. A page is shorter than its limit if it is cut, or if requests of it are folded, or get another
   * status, while it is read.
   */
  list(filter: RequestFilter, page: PageRequest): Promise<RequestPage>;
  find(publicId: string): Promise<ReceiptRow | undefined>;
  /** Undefined also if the request is of another account. */
  receipt(accountId: number, publicId: string): Promise<ReceiptRow | undefined>;
  /** The ended attempts, oldest first. */
  attempts(publicId: string): Promise<AttemptRecord[]>;
  /** The admission time of the newest request up to this time. */
  newestAt(nowMs: number): Promise<number | undefined>;
  /** The time of the last entry of requests and ledger, as `LAST_ENTRY` says. */
  lastEntryAt(): Promise<number | undefined>;
}

/** Which account a stored object of a provider belongs to. */
export interface Owners {
  /** Finds an object by the SHA-256 of its id. Undefined if it is unknown, expired or of another account. */
  find(
    hash: Uint8Array,
    accountId: number,
    now: number,
  ): Promise<Pick<OwnedObject, "provider" | "historyTokens"> | undefined>;
}

export interface Vouchers {
  /** Finds a voucher by the SHA-256 of its code: one point read. */
  findByHash(hash: Uint8Array): Promise<VoucherRow | undefined>;
  findOrThrow(publicId: string): Promise<VoucherRow>;
  /** Newest first. */
  list(filter?: VoucherFilter): Promise<VoucherRow[]>;
  /** The number of all vouchers that a list without a limit has. */
  count(search: string | undefined): Promise<number>;
}

/** Sums over requests, running ones too. */
export interface Usage {
  /** Days oldest first, other groups by name. */
  by(group: UsageGrouping, filter: UsageFilter): Promise<UsageRow[]>;
  /** Models by name, in days oldest first. It pauses after each day. */
  ofAccountByDay(accountId: number, days: DaySpan, pause: Pause): Promise<readonly PeriodUsage[]>;
  /**
   * By hour of admission, newest first. It pauses after a few hundred requests, so one model has an hour in several parts. A
   * folded request has no hour, so it is not there. Each request that was recorded at the first part counts once, as it is when
   * it is read.
   */
  ofAccountByHour(accountId: number, days: DaySpan, pause: Pause): Promise<readonly PeriodUsage[]>;
}

/**
 * The reads of the operator's console. Each one takes at most a quarter of a second with a million requests:
 * `bun bench/console.ts`. They are for a process of its own, not for a serving gateway.
 */
export interface Reports {
  overview(span: ReportSpan, nowMs: number): Promise<OverviewReport>;
  /** The usage of one account, by its row id. */
  account(accountId: number, span: ReportSpan, nowMs: number): Promise<UsageReport>;
  providers(span: ReportSpan, nowMs: number): Promise<ProvidersReport>;
  accounts(search: AccountSearch, nowMs: number): Promise<Listed<ListedAccount>>;
  keys(search: KeySearch, nowMs: number): Promise<Listed<ListedKey>>;
}

/** What a person is told of, and whether that has happened. */
export interface Notices {
  /** The conditions of these types that hold. */
  open(types: readonly string[]): Promise<OpenNotice[]>;
  /**
   * Changes one record. Resolves with true for a `claim` that the caller has got: the condition holds, nobody was told of it,
   * and the last notice of the cause is an hour old.
   */
  change(change: NoticeChange): Promise<boolean>;
  /**
   * Records whether the last audit found problems. A backup audits the money only, so it does not end what an audit has
   * found. Writes nothing if neither this one nor the one before found any.
   */
  audited(by: AuditedBy, hasProblems: boolean, at: number): Promise<void>;
}

/** The conditions of accounts and keys that a person should know. A serving gateway reads them, so each read is short. */
export interface NoticeCauses {
  /** The low ones among the next accounts. Disabled accounts and those that never had money are left out. */
  lowAccounts(next: NextAccounts, limits: LowLimits, nowMs: number): Promise<LowAccounts>;
  /** Keys that expire within this time, the first ones first. Keys of disabled accounts are left out. */
  expiringKeys(nowMs: number, withinMs: number, limit: number): Promise<ExpiringKey[]>;
}

/**
 * The changes of commands. Each is one transaction with a row in the admin log, unless `applied` is false. They reject with
 * StoreError, and with MoneyReservedError for a debit or an overdraft that is possible once the gateway releases its reserve.
 */
export interface Admin {
  createAccount(actor: Actor, name: string, overdraft: bigint): Promise<AccountRow>;
  setAccount(actor: Actor, name: string, changes: AccountChanges): Promise<AccountRow>;
  setDisabled(actor: Actor, name: string, disabled: boolean): Promise<AccountRow>;
  /** Creates the account if it does not exist. */
  createKey(
    actor: Actor,
    account: string,
    key: Omit<NewKey, "accountId">,
  ): Promise<{ key: KeyRow; createdAccount: boolean }>;
  /** A budget applies to the whole rotation chain. */
  changeKey(actor: Actor, publicId: string, changes: KeyChanges): Promise<KeyRow>;
  /** Replaces a key by a new one. */
  rotateKey(actor: Actor, publicId: string, rotation: Rotation): Promise<Rotated>;
  /** `applied` is false if it was revoked before. */
  revokeKey(actor: Actor, publicId: string): Promise<{ key: KeyRow; applied: boolean }>;
  changeBalance(actor: Actor, ledgerChange: LedgerChange): Promise<LedgerChangeResult>;
  /** Refunds a charge in full or in part. */
  refund(actor: Actor, refundRequest: RefundRequest): Promise<Refunded>;
  /** Creates all of them, or none. Resolves with them in the order of their codes. */
  createVouchers(actor: Actor, created: NewVouchers): Promise<VoucherRow[]>;
  /** Rejects for a redeemed voucher. */
  revokeVoucher(actor: Actor, publicId: string): Promise<Revoked>;
  /**
   * Called when money that a change needs is reserved. Resolves with true if all of it was released at once; else the gateways
   * release what they do not hold, if one is running.
   */
  releaseReserve(account: string): Promise<boolean>;
}

export { MoneyReservedError } from "./admin/admin.ts";
export type { AuditReport } from "./audit/audit.ts";
export type { ChangeCounter, Pause } from "./connection.ts";
export type { ListedAccount, ListedKey } from "./reports/directory.ts";
export type { ProviderFigures } from "./reports/providersReport.ts";
export type { OverviewReport, SampledLatencies } from "./reports/reports.ts";
export type { UsageReport as ReportedUsage } from "./reports/usageReport.ts";
export type { Actor } from "./schema/schema.ts";
export { NotFoundError, PooledError, StoppedError, StoreError } from "./storeError.ts";
export { available, type AccountRow } from "./tables/accounts.ts";
export type { KeyChanges, KeyRow, KeySecretRow } from "./tables/keys.ts";
export { clockDoubt } from "./tables/lastEntry.ts";
export type { HistoryRow } from "./tables/ledger.ts";
export type { ExpiringKey, LowAccount } from "./tables/noticeCauses.ts";
export { AUDIT_FAILED, type NoticeChange } from "./tables/notices.ts";
export type { ReceiptRow, RequestRow } from "./tables/receipts.ts";
export type { PageRequest, RequestFilter } from "./tables/requestList.ts";
export type { VoucherFilter, VoucherRow } from "./tables/vouchers.ts";
export type { Figures } from "./usage/sums.ts";
export {
  usageGroupings,
  type PeriodUsage,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from "./usage/usage.ts";
export type { AccountEffect, ChainEffect, GroupEffect, ReserveTarget } from "./writer/effects.ts";
export { redeemability } from "./writer/redemption.ts";
export {
  amountToWire,
  type AdmittedRecord,
  type AttemptRecord,
  type RequestRecord,
} from "./writer/requestRecord.ts";
export {
  COMMIT_STEP_MS,
  isTemporary,
  WriteError,
  type BatchPlanner,
  type EndingRequest,
  type Writer,
} from "./writer/writer.ts";
