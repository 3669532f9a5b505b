import { asc, desc, sql } from "drizzle-orm";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import type { Connection, Pause, Values } from "../connection.ts";
import { idsOf } from "../reports/latency.ts";
import { attempts, requests } from "../schema/schema.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";
import { onlyAttempt, receiptQuery, type ReceiptRow } from "./receipts.ts";

/**
 * What a request must have. `account` is a row id or a name, `key` a public id. `since` is inclusive, `until` is exclusive,
 * in milliseconds since 1970. Charges are nano-roubles, both ends inclusive.
 */
export interface RequestFilter {
  readonly account?: number | string | undefined;
  readonly key?: string | undefined;
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly status?: RequestStatus | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly chargeMin?: bigint | undefined;
  readonly chargeMax?: bigint | undefined;
  readonly isEstimated?: true | undefined;
  readonly isWrittenOff?: true | undefined;
}

export interface PageRequest {
  readonly limit: number;
  /** Only rows with a smaller row id. */
  readonly before?: number | undefined;
  /** The most rows that one step looks at. */
  readonly stepRows?: number;
  /** A page ends after about so many rows, with what matches among them. */
  readonly examinedMax?: number;
  /** Called after each step. */
  readonly pause?: Pause | undefined;
}

/** A request in the order of the rows. `id` is its public id. */
export interface Place {
  readonly row: number;
  readonly id: string;
  readonly at: number;
}

export interface ListedRequest extends ReceiptRow {
  /** The ended attempts, oldest first. */
  readonly attempts: readonly AttemptRecord[];
}

export interface RequestPage {
  readonly rows: readonly ListedRequest[];
  /** The next page begins after it. Undefined at the end. */
  readonly next: Place | undefined;
  /** The page ended at `examinedMax`. */
  readonly isCut: boolean;
}

/** For a process of its own. A gateway that serves takes smaller steps. */
const STEP_ROWS = 20_000;
const EXAMINED_MAX = 100_000;

export function requestList(connection: Connection) {
  return async (filter: RequestFilter, page: PageRequest): Promise<RequestPage> => {
    const { limit, before, stepRows = STEP_ROWS, examinedMax = EXAMINED_MAX, pause } = page;
    const walk = await walkOf(connection, filter);
    if (walk === undefined) return { rows: [], next: undefined, isCut: false };
    const step = walk.hasConditions ? Math.min(stepRows, examinedMax) : limit + 1;
    const found: Place[] = [];
    /** The oldest row that was looked at. Undefined: all rows were looked at. */
    let reached: Place | undefined;
    let below = Math.min(before ?? walk.below, walk.below);
    for (let examined = 0; examined < examinedMax && found.length <= limit; examined += step) {
      [reached] = await walk.places({ below, first: walk.first, most: 1, skipped: step - 1 });
      const span = { below, first: reached?.row ?? walk.first };
      found.push(...(await walk.matches({ ...span, most: limit + 1 - found.length, skipped: 0 })));
      if (reached === undefined) break;
      below = reached.row;
      await pause?.();
    }
    const isCut = found.length <= limit && reached !== undefined;
    const listed = found.slice(0, limit);
    const rows = await connection.inSnapshot((snapshot) => rowsOf(snapshot, listed));
    return {
      rows: rows.filter(({ status }) => status === (filter.status ?? status)),
      next: found.length > limit ? listed.at(-1) : reached,
      isCut,
    };
  };
}

/** Row ids below one and from another one on. `skipped`: so many of the newest are left out. */
interface Span {
  readonly below: number;
  readonly first: number;
  readonly most: number;
  readonly skipped: number;
}

/** A way through the rows by one index. */
interface Walk {
  readonly first: number;
  readonly below: number;
  /** Some rows of the way do not match. */
  readonly hasConditions: boolean;
  /** All of the way, and those that match the filter, newest first. */
  places(span: Span): Promise<Place[]>;
  matches(span: Span): Promise<Place[]>;
}

/** The conditions of a filter. Rows are found by their ids, so these columns need no index. */
const CONDITIONS = {
  keyId: "key_id = $keyId",
  model: "model = $model",
  provider: "provider = $provider",
  done: "status = 'done'",
  chargeMin: "charge >= $chargeMin",
  chargeMax: "charge <= $chargeMax",
  isEstimated: "estimated <> 0",
  isWrittenOff: "write_off > 0",
} as const;

/** Undefined: no request can match. */
async function walkOf(connection: Connection, filter: RequestFilter): Promise<Walk | undefined> {
  const { status, since, until } = filter;
  const owner = await ownerOf(connection, filter);
  const ids = await windowOf(connection, filter);
  if (owner === undefined || ids === undefined) return undefined;
  const { accountId, keyId } = owner;
  const ofStatus = status !== undefined && status !== "done";
  const rows = connection.paths.requestsById({ ofAccount: accountId !== undefined, ofStatus });
  const checked = { ...filter, keyId, done: status === "done" || undefined };
  const names = (Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[]).filter(
    (name) => checked[name] !== undefined,
  );
  const conditions = [
    ...names.map((name) => CONDITIONS[name]),
    ...(since === undefined ? [] : [`${rows.at} >= $since`]),
    ...(until === undefined ? [] : [`${rows.at} < $until`]),
  ];
  const given = Object.fromEntries(names.map((name) => [name, checked[name] ?? null]));
  const values: Values = {
    ...(accountId !== undefined && { accountId }),
    ...(ofStatus && { status }),
  };
  const read =
    (those: readonly string[], more: Values) =>
    async (span: Span): Promise<Place[]> => {
      const found = await connection.rows<{ id: bigint; publicId: string; at: bigint }>(
        `SELECT id, public_id AS "publicId", at FROM requests
          WHERE ${[...rows.conditions, `${rows.id} < $below AND ${rows.id} >= $first`, ...those].join(" AND ")}
          ORDER BY ${rows.id} DESC LIMIT $most OFFSET $skipped`,
        { ...values, ...more, ...span },
      );
      return found.map(({ id, publicId, at }) => {
        return { row: Number(id), id: publicId, at: Number(at) };
      });
    };
  return {
    ...ids,
    hasConditions: conditions.length > 0,
    places: read([], {}),
    matches: read(conditions, {
      ...given,
      ...(since !== undefined && { since }),
      ...(until !== undefined && { until }),
    }),
  };
}

/**
 * The row ids of the account and the key, as far as they are given. Undefined: one of them does not exist, or the key
 * is of another account.
 */
async function ownerOf(
  connection: Connection,
  { account, key }: RequestFilter,
): Promise<{ readonly accountId?: number; readonly keyId?: number } | undefined> {
  let accountId = typeof account === "number" ? account : undefined;
  if (typeof account === "string") {
    const query = "SELECT id FROM accounts WHERE name = $account";
    const row = await connection.row<{ id: bigint }>(query, { account });
    if (row === undefined) return undefined;
    accountId = Number(row.id);
  }
  if (key === undefined) return accountId === undefined ? {} : { accountId };
  const row = await connection.row<{ id: bigint; accountId: bigint }>(
    `SELECT id, account_id AS "accountId" FROM keys WHERE public_id = $key`,
    { key },
  );
  if (row === undefined || Number(row.accountId) !== (accountId ?? Number(row.accountId)))
    return undefined;
  return { accountId: Number(row.accountId), keyId: Number(row.id) };
}

/** The row ids of a span of time: from `first` on and below `below`. Undefined: it has no request. */
async function windowOf(
  connection: Connection,
  { since, until }: RequestFilter,
): Promise<{ readonly first: number; readonly below: number } | undefined> {
  const all = { first: 1, below: Number.MAX_SAFE_INTEGER };
  if (since === undefined && until === undefined) return all;
  const ids = await idsOf(connection, { from: since ?? 0, to: until ?? Number.MAX_SAFE_INTEGER });
  return ids && { first: ids.first, below: ids.last + 1 };
}

/** The rows of these places, with their attempts. */
async function rowsOf(connection: Connection, places: readonly Place[]): Promise<ListedRequest[]> {
  if (places.length === 0) return [];
  const { db, dialect } = connection;
  const ids = sql`${JSON.stringify(places.map(({ row }) => row))}`;
  const recorded = await connection.all(
    db
      .select()
      .from(attempts)
      .where(dialect.isIn(sql`${attempts.requestId}`, ids))
      .orderBy(asc(attempts.requestId), asc(attempts.n)),
  );
  const rows = await connection.all(
    receiptQuery(db)
      .where(dialect.isIn(sql`${requests.id}`, ids))
      .orderBy(desc(requests.id)),
  );
  const byRequest = Map.groupBy(recorded, ({ requestId }) => requestId);
  return rows.map((row) =>
    Object.assign(row, { attempts: byRequest.get(row.rowId) ?? onlyAttempt(row) }),
  );
}
