import {
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  isNotNull,
  lte,
  ne,
  sql,
  type SQL,
} from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requestStatuses, type RequestStatus } from "../../contract/account/requestStatus.ts";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { accounts, attempts, keys, ledger, requests } from "../schema/schema.ts";
import type { Steps } from "../steps.ts";
import { LAST_ENTRY } from "./lastEntry.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";

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
  /** The one recorded last first. */
  list(filter: RequestFilter): Steps<RequestRow[]>;
  find(publicId: string): Steps<ReceiptRow | undefined>;
  /** Undefined if the request is unknown or of another account. */
  receipt(accountId: number, publicId: string): Steps<ReceiptRow | undefined>;
  /** The ended attempts, oldest first. */
  attempts(publicId: string): Steps<AttemptRecord[]>;
  /** The admission time of the newest request up to this time. */
  newestAt(nowMs: number): Steps<number | undefined>;
  /** The time of the last entry of requests and ledger, as `LAST_ENTRY` says. */
  lastEntryAt(): Steps<number | undefined>;
}

export function requestTable(connection: Connection): RequestTable {
  const { db } = connection;
  const find = receiptReader(connection);
  return {
    list: (filter) =>
      connection.all(
        db
          .select(requestColumns())
          .from(requests)
          .innerJoin(accounts, eq(requests.accountId, accounts.id))
          .innerJoin(keys, eq(requests.keyId, keys.id))
          .where(sql`${requests.id} IN (${latestIds(connection, filter)})`)
          .orderBy(desc(requests.id)),
      ),
    find,
    *receipt(accountId, publicId) {
      const found = yield* find(publicId);
      return found?.accountId === accountId ? found : undefined;
    },
    *attempts(publicId) {
      const recorded = yield* connection.all(
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
          .orderBy(asc(attempts.n)),
      );
      return recorded.length > 0 ? recorded : onlyAttempt(yield* find(publicId));
    },
    *newestAt(nowMs) {
      const row = yield* connection.first(
        db
          .select({ at: requests.at })
          .from(requests)
          .where(lte(requests.at, nowMs))
          .orderBy(desc(requests.at))
          .limit(1),
      );
      return row?.at;
    },
    *lastEntryAt() {
      const [row] = yield* connection.rows<{ at: bigint | null }>(LAST_ENTRY);
      return row === undefined || row.at === null ? undefined : Number(row.at);
    },
  };
}

/** An attempt has no row of its own if it was the only one and succeeded: the request's row has its provider. */
export function onlyAttempt(request: ReceiptRow | undefined): AttemptRecord[] {
  if (request?.attemptCount !== 1) return [];
  const { provider, durationMs } = request;
  return [{ provider: provider ?? "", outcome: "ok", status: 200, durationMs: durationMs ?? 0 }];
}

/** The columns of a RequestRow. */
export function requestColumns() {
  const { publicId, accountId: _account, keyId: _key, ...columns } = getTableColumns(requests);
  return { ...columns, id: publicId, account: accounts.name, key: keys.publicId };
}

function receiptReader(connection: Connection): RequestTable["find"] {
  const { db, dialect } = connection;
  const statement = lazy(() =>
    connection.prepare(
      receiptQuery(db, {}).where(eq(requests.publicId, dialect.plannedOnce("publicId"))),
    ),
  );
  return (publicId) => statement().first({ publicId });
}

/** A query for rows as `ReceiptRow` has them, with more columns. It needs a condition. */
export function receiptQuery<More extends Record<string, SQLiteColumn>>(
  db: Connection["db"],
  more: More,
) {
  const refunded = db
    .select({ sum: sql`coalesce(sum(${ledger.amount}), 0)` })
    .from(ledger)
    .where(and(eq(ledger.accountId, requests.accountId), eq(ledger.refundOf, requests.ledgerSeq)));
  return db
    .select({
      ...requestColumns(),
      accountId: requests.accountId,
      refunded: sql<bigint>`(${refunded})`.mapWith(BigInt),
      ...more,
    })
    .from(requests)
    .innerJoin(accounts, eq(requests.accountId, accounts.id))
    .innerJoin(keys, eq(requests.keyId, keys.id));
}

/**
 * A request that is open for over a second has its row, and so its id, before requests that end earlier. So the order of
 * charges differs from the order of ids, by fewer than the requests that one account has open at once. With more than
 * this number, the list of an account may leave out some of the newest.
 */
const OUT_OF_ORDER_MAX = 1000;

const rareStatuses = requestStatuses.filter((status) => status !== "done");
/** With this condition SQLite can use the index `requests_not_done`. */
const isNotDone = ne(requests.status, "done");

/** A query for the ids of the newest requests that match the filter. */
function latestIds(connection: Connection, filter: RequestFilter): SQL {
  const { db } = connection;
  const { account, key, status, limit } = filter;
  const newest = (conditions: readonly (SQL | undefined)[], order: SQL, rows: number): SQL =>
    db
      .select({ id: requests.id })
      .from(requests)
      .where(and(filterCondition(connection, filter), ...conditions))
      .orderBy(order)
      .limit(rows)
      .getSQL();
  const ofStatus = (one: RequestStatus): SQL =>
    newest([eq(requests.status, one), isNotDone], desc(requests.id), limit);
  if (status !== undefined && status !== "done") return ofStatus(status);
  if (account === undefined && key === undefined) {
    const order = usesTimeIndex(filter)
      ? sql`${desc(requests.at)}, ${desc(requests.id)}`
      : desc(requests.id);
    return newest([], order, limit);
  }
  // Each index has the rows of one account in order. Only together they have all of its requests.
  const ofCharged = newest(
    [isNotNull(requests.ledgerSeq)],
    desc(requests.ledgerSeq),
    limit + OUT_OF_ORDER_MAX,
  );
  const parts = status === "done" ? [ofCharged] : [ofCharged, ...rareStatuses.map(ofStatus)];
  const ids = sql.join(
    parts.map((part) => sql`SELECT id FROM (${part}) AS part`),
    sql` UNION `,
  );
  return sql`${ids} ORDER BY id DESC LIMIT ${limit}`;
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

function filterCondition({ dialect }: Connection, filter: RequestFilter): SQL | undefined {
  const { account, status, key, model, since, until } = filter;
  // The index of the account, or of requests that are not done, is better.
  const column = sql`${requests.at}`;
  const at = usesTimeIndex(filter) ? column : dialect.withoutIndexOf(column);
  return and(
    account === undefined ? undefined : ofAccount(account),
    key === undefined ? undefined : ofKey(key),
    status === undefined ? undefined : eq(requests.status, status),
    model === undefined ? undefined : eq(requests.model, model),
    since === undefined ? undefined : sql`${at} >= ${since}`,
    until === undefined ? undefined : sql`${at} < ${until}`,
  );
}

/** A subquery, because SQLite scans all requests for a name in a join. */
function ofAccount(name: string): SQL {
  return sql`${requests.accountId} = (SELECT ${accounts.id} FROM ${accounts} WHERE ${accounts.name} = ${name})`;
}

/** Keys have no index in `requests`, so the indexes of their account are used. */
function ofKey(publicId: string): SQL {
  const ofKeyRow = (column: SQL) =>
    sql`(SELECT ${column} FROM ${keys} WHERE ${keys.publicId} = ${publicId})`;
  return sql`${requests.accountId} = ${ofKeyRow(sql`${keys.accountId}`)} AND ${requests.keyId} = ${ofKeyRow(sql`${keys.id}`)}`;
}
