import { and, asc, desc, eq, inArray, lte, ne, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { Endpoint, RequestStatus } from "../../contract/account/requestStatus.ts";
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
import type { AttemptRecord } from "../writer/settle.ts";
import type { Connection } from "../sqlite.ts";

/** A kept request; `key` is the key's public id. Amounts are nano-roubles. */
export interface RequestRow {
  id: string;
  at: number;
  account: string;
  key: string;
  endpoint: Endpoint;
  model: string;
  provider: string | null;
  stream: boolean;
  status: RequestStatus;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
  estimated: boolean;
  priceInput: bigint;
  priceCachedInput: bigint;
  priceCacheWrite: bigint;
  priceOutput: bigint;
  hold: bigint;
  charge: bigint;
  writeOff: bigint;
  operatorCost: bigint | null;
  attemptCount: number;
  durationMs: number | null;
  firstByteMs: number | null;
}

/** A request, and what was given back of its charge so far. */
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
  /** A request of this account; undefined for another's, as for one that is not there. */
  receipt(accountId: number, publicId: string): ReceiptRow | undefined;
  attempts(publicId: string): AttemptRecord[];
  /** When the newest one that is not ahead of this time was admitted; undefined where there is none. */
  newestAt(nowMs: number): number | undefined;
}

/** Requests that were ended without a charge, and the sum of their holds in nano-roubles. */
export interface Interrupted {
  count: number;
  held: bigint;
}

export function requestTable(connection: Connection): RequestTable {
  const { db } = connection;
  const find = receiptReader(connection);
  return {
    list(filter) {
      // Only ids are put in order: of the few that are not done the index has all that this takes.
      const latest = db
        .select({ id: requests.id })
        .from(requests)
        .where(isListed(filter))
        .orderBy(...(isOfTimeAlone(filter) ? [desc(requests.at)] : []), desc(requests.id))
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

/** Ends every request that runs. Throws what SQLite does, and none is ended then. */
export function interruptRunning({ db }: Connection): Interrupted {
  const ended = db
    .update(requests)
    .set({ status: "interrupted" })
    .where(isRunning)
    .returning({ hold: requests.hold })
    .all();
  return { count: ended.length, held: ended.reduce((sum, { hold }) => sum + hold, 0n) };
}

/** What a request is shown by, of three tables joined. */
function requestColumns() {
  return {
    id: requests.publicId,
    at: requests.at,
    account: accounts.name,
    key: keys.publicId,
    endpoint: requests.endpoint,
    model: requests.model,
    provider: requests.provider,
    stream: requests.stream,
    status: requests.status,
    promptTokens: requests.promptTokens,
    cachedTokens: requests.cachedTokens,
    cacheWriteTokens: requests.cacheWriteTokens,
    completionTokens: requests.completionTokens,
    estimated: requests.estimated,
    priceInput: requests.priceInput,
    priceCachedInput: requests.priceCachedInput,
    priceCacheWrite: requests.priceCacheWrite,
    priceOutput: requests.priceOutput,
    hold: requests.hold,
    charge: requests.charge,
    writeOff: requests.writeOff,
    operatorCost: requests.operatorCost,
    attemptCount: requests.attemptCount,
    durationMs: requests.durationMs,
    firstByteMs: requests.firstByteMs,
  };
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

/** By the id in the requests themselves: by the name in a join, SQLite would look at every request. */
function ofAccount(name: string): SQL {
  return sql`${requests.accountId} = (SELECT ${accounts.id} FROM ${accounts} WHERE ${accounts.name} = ${name})`;
}

/** Then the index of times has them in order, and those at its end are found at once. */
function isOfTimeAlone({ account, key, status, since, until }: RequestFilter): boolean {
  const isNarrowed = account !== undefined || key !== undefined || isRare(status);
  return !isNarrowed && (since !== undefined || until !== undefined);
}

/** An index has the few that are not done. */
function isRare(status: RequestStatus | undefined): boolean {
  return status !== undefined && status !== "done";
}

function isListed(filter: RequestFilter): SQL | undefined {
  const { account, status, key, model, since, until } = filter;
  // With a sign before it no index is used for it: that of an account, or of what is not done, has fewer.
  const at = isOfTimeAlone(filter) ? sql`${requests.at}` : sql`+${requests.at}`;
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

/** No index has the key; those of its account are a part of all. */
function ofKey(publicId: string): SQL {
  const of = (column: SQL) =>
    sql`(SELECT ${column} FROM ${keys} WHERE ${keys.publicId} = ${publicId})`;
  return sql`${requests.accountId} = ${of(sql`${keys.accountId}`)} AND ${requests.keyId} = ${of(sql`${keys.id}`)}`;
}
