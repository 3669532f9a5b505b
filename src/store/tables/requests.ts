import { and, asc, desc, eq, getTableColumns, inArray, lte, ne, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { lazy } from "../../lib/lazy.ts";
import {
  accounts,
  attempts,
  isRunning,
  keys,
  ledger,
  plannedOnce,
  requests,
} from "../schema/schema.ts";
import { chargeRef } from "./ledger.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";
import type { Connection } from "../sqlite.ts";

/** `id` and `key` are public ids. Amounts are nano-roubles. */
export interface RequestRow extends Omit<
  typeof requests.$inferSelect,
  "id" | "publicId" | "accountId" | "keyId"
> {
  id: string;
  account: string;
  key: string;
}

/** A request with the sum of its refunds. */
export interface ReceiptRow extends RequestRow {
  accountId: number;
  refunded: bigint;
}

/** `key` is a public id; `since` inclusive, `until` exclusive, in milliseconds since 1970. */
export interface RequestFilter {
  account?: string | undefined;
  status?: RequestStatus | undefined;
  key?: string | undefined;
  model?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
  limit: number;
}

export interface RequestTable {
  /** Newest first. */
  list(filter: RequestFilter): RequestRow[];
  find(publicId: string): ReceiptRow | undefined;
  /** Undefined if the request is unknown or of another account. */
  receipt(accountId: number, publicId: string): ReceiptRow | undefined;
  attempts(publicId: string): AttemptRecord[];
  /** The admission time of the newest request up to this time. */
  newestAt(nowMs: number): number | undefined;
}

/** The interrupted requests: their number, and the sum of their holds in nano-roubles. */
export interface Interrupted {
  count: number;
  held: bigint;
}

export function requestTable(connection: Connection): RequestTable {
  const { db } = connection;
  const find = receiptReader(connection);
  return {
    list(filter) {
      // Ids first: for requests that are not done, an index has all columns that this subquery needs.
      const latest = db
        .select({ id: requests.id })
        .from(requests)
        .where(filterCondition(filter))
        .orderBy(...(usesTimeIndex(filter) ? [desc(requests.at)] : []), desc(requests.id))
        .limit(filter.limit);
      return db
        .select(requestColumns())
        .from(requests)
        .innerJoin(accounts, eq(requests.accountId, accounts.id))
        .innerJoin(keys, eq(requests.keyId, keys.id))
        .where(inArray(requests.id, latest))
        .orderBy(desc(requests.id))
        .all();
    },
    find,
    receipt(accountId, publicId) {
      const found = find(publicId);
      return found?.accountId === accountId ? found : undefined;
    },
    attempts: (publicId) =>
      db
        .select({
          provider: attempts.provider,
          outcome: attempts.outcome,
          status: attempts.status,
          durationMs: attempts.durationMs,
        })
        .from(attempts)
        .innerJoin(requests, eq(attempts.requestId, requests.id))
        .where(eq(requests.publicId, publicId))
        .orderBy(asc(attempts.n))
        .all(),
    newestAt: (nowMs) =>
      db
        .select({ at: requests.at })
        .from(requests)
        .where(lte(requests.at, nowMs))
        .orderBy(desc(requests.at))
        .limit(1)
        .get()?.at,
  };
}

/** Sets all running requests to `interrupted`. Throws SQLite's errors; then nothing is changed. */
export function interruptRunning({ db }: Connection): Interrupted {
  const interrupted = db
    .update(requests)
    .set({ status: "interrupted" })
    .where(isRunning)
    .returning({ hold: requests.hold })
    .all();
  return { count: interrupted.length, held: interrupted.reduce((sum, { hold }) => sum + hold, 0n) };
}

function requestColumns() {
  const { publicId, accountId: _account, keyId: _key, ...columns } = getTableColumns(requests);
  return { ...columns, id: publicId, account: accounts.name, key: keys.publicId };
}

function receiptReader({ db }: Connection): RequestTable["find"] {
  const statement = lazy(() => {
    const charge = alias(ledger, "charge");
    const refunded = db
      .select({ sum: sql`coalesce(sum(${ledger.amount}), 0)` })
      .from(ledger)
      .innerJoin(charge, eq(ledger.refundOf, charge.id))
      .where(eq(charge.ref, plannedOnce("ref")));
    return db
      .select({
        ...requestColumns(),
        accountId: requests.accountId,
        refunded: sql<bigint>`(${refunded})`.mapWith(BigInt),
      })
      .from(requests)
      .innerJoin(accounts, eq(requests.accountId, accounts.id))
      .innerJoin(keys, eq(requests.keyId, keys.id))
      .where(eq(requests.publicId, plannedOnce("publicId")))
      .prepare();
  });
  return (publicId) => statement().get({ publicId, ref: chargeRef(publicId) });
}

/** A subquery, because SQLite scans all requests for a name in a join. */
function ofAccount(name: string): SQL {
  return sql`${requests.accountId} = (SELECT ${accounts.id} FROM ${accounts} WHERE ${accounts.name} = ${name})`;
}

/** True if time is the most selective condition. Then the index by time finds the last rows in order. */
function usesTimeIndex({ account, key, status, since, until }: RequestFilter): boolean {
  const isNarrowed = account !== undefined || key !== undefined || isRare(status);
  return !isNarrowed && (since !== undefined || until !== undefined);
}

/** Requests that are not done are few and have an index. */
function isRare(status: RequestStatus | undefined): boolean {
  return status !== undefined && status !== "done";
}

function filterCondition(filter: RequestFilter): SQL | undefined {
  const { account, status, key, model, since, until } = filter;
  // The sign hides the column from the planner: the index of the account, or of requests that are not done, is better.
  const at = usesTimeIndex(filter) ? sql`${requests.at}` : sql`+${requests.at}`;
  return and(
    account === undefined ? undefined : ofAccount(account),
    key === undefined ? undefined : ofKey(key),
    status === undefined ? undefined : eq(requests.status, status),
    isRare(status) ? ne(requests.status, "done") : undefined,
    model === undefined ? undefined : eq(requests.model, model),
    since === undefined ? undefined : sql`${at} >= ${since}`,
    until === undefined ? undefined : sql`${at} < ${until}`,
  );
}

/** Keys have no index in `requests`, so the index of their account is used. */
function ofKey(publicId: string): SQL {
  const ofKeyRow = (column: SQL) =>
    sql`(SELECT ${column} FROM ${keys} WHERE ${keys.publicId} = ${publicId})`;
  return sql`${requests.accountId} = ${ofKeyRow(sql`${keys.accountId}`)} AND ${requests.keyId} = ${ofKeyRow(sql`${keys.id}`)}`;
}
