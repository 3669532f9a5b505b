import { and, asc, count, eq, gt, lt, or, sql } from "drizzle-orm";
import { DAY_MS } from "../../lib/clock.ts";
import { accounts, keys } from "../schema/schema.ts";
import type { Connection } from "../connection.ts";
import { accountColumns, type AccountRow } from "../tables/accounts.ts";
import { keyTable, type KeyRow } from "../tables/keys.ts";
import { sumReader, type Figures } from "../usage/sums.ts";

/** `search`: a part of the name, in any case of Latin letters. `before`: a name; the page begins after it. */
export interface AccountSearch {
  readonly search?: string | undefined;
  readonly before?: string | undefined;
  readonly limit: number;
}

/**
 * `search`: a part of the id, label, prefix or account, in any case of Latin letters. `account`: a name. `before`: a row id;
 * the page begins with the key before it.
 */
export interface KeySearch {
  readonly search?: string | undefined;
  readonly account?: string | undefined;
  readonly before?: number | undefined;
  readonly limit: number;
}

type Recent = Pick<Figures, "requests" | "charged">;

export interface ListedAccount extends AccountRow {
  readonly keys: number;
  readonly recent: Recent;
}

export interface ListedKey extends KeyRow {
  /** A rotation made a newer key. */
  readonly isReplaced: boolean;
  readonly recent: Recent;
}

/** `total` counts all that match. */
export interface Listed<Row> {
  readonly rows: readonly Row[];
  readonly total: number;
}

const RECENT_DAYS = 30;

/** Finds accounts, sorted by name, with what they used in the last 30 days. */
export async function searchAccounts(
  connection: Connection,
  { search, before, limit }: AccountSearch,
  nowMs: number,
): Promise<Listed<ListedAccount>> {
  const { db, dialect } = connection;
  const isFound =
    search === undefined ? undefined : dialect.contains(sql`${accounts.name}`, sql`${search}`);
  const keyCount = db.select({ count: count() }).from(keys).where(eq(keys.accountId, accounts.id));
  const rows = await connection.all(
    db
      .select({ ...accountColumns, keys: sql`(${keyCount})`.mapWith(Number) })
      .from(accounts)
      .where(and(isFound, before === undefined ? undefined : gt(accounts.name, before)))
      .orderBy(asc(accounts.name))
      .limit(limit),
  );
  const total = await connection.first(db.select({ total: count() }).from(accounts).where(isFound));
  const recent = await recentBy(connection, "account", nowMs);
  return {
    rows: rows.map((row) => withMore(row, { recent: recent.get(row.id) ?? NOTHING })),
    total: total?.total ?? 0,
  };
}

/** Finds keys, the newest first. */
export async function searchKeys(
  connection: Connection,
  { search, account, before, limit }: KeySearch,
  nowMs: number,
): Promise<Listed<ListedKey>> {
  const { db, dialect } = connection;
  const texts = [keys.publicId, keys.label, keys.prefix, accounts.name];
  const isFound =
    search === undefined
      ? undefined
      : or(...texts.map((text) => dialect.contains(sql`${text}`, sql`${search}`)));
  const ofAccount = account === undefined ? undefined : eq(accounts.name, account);
  const condition = and(isFound, ofAccount);
  const older = before === undefined ? undefined : lt(keys.id, before);
  const rows = await keyTable(connection).newest(and(condition, older), limit);
  const total = await connection.first(
    db
      .select({ total: count() })
      .from(keys)
      .innerJoin(accounts, eq(keys.accountId, accounts.id))
      .where(condition),
  );
  const recent = await recentBy(connection, "key", nowMs);
  const newest = await newestOfChains(connection);
  return {
    rows: rows.map((row) =>
      withMore(row, {
        isReplaced: newest.get(row.firstKeyId) !== row.id,
        recent: recent.get(row.id) ?? NOTHING,
      }),
    ),
    total: total?.total ?? 0,
  };
}

function withMore<Row, More>(row: Row, more: More): Row & More {
  return { ...row, ...more };
}

const NOTHING: Recent = { requests: 0, charged: 0n };

/** What each account or key used in the last 30 days with today. */
async function recentBy(
  connection: Connection,
  group: "account" | "key",
  nowMs: number,
): Promise<ReadonlyMap<number, Recent>> {
  const read = sumReader({
    sources: [{ of: "totals", rows: "daily_totals WHERE day > $before" }],
    by: [group],
    figures: ["requests", "charged"],
  });
  const sums = await read(connection, { before: Math.floor(nowMs / DAY_MS) - RECENT_DAYS });
  return new Map(sums.map(({ [group]: id, ...recent }) => [id, recent]));
}

/** The newest key of each rotation chain, by the first one. */
async function newestOfChains(connection: Connection): Promise<ReadonlyMap<number, number>> {
  const rows = await connection.rows<Record<"first" | "newest", bigint>>(
    "SELECT coalesce(first_key_id, id) AS first, max(id) AS newest FROM keys GROUP BY 1",
  );
  return new Map(rows.map(({ first, newest }) => [Number(first), Number(newest)]));
}
