import type { Database } from "bun:sqlite";
import { and, asc, count, eq, or, sql, type SQL } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import { DAY_MS } from "../../lib/clock.ts";
import { accounts, keys } from "../schema/schema.ts";
import type { Connection } from "../sqlite/sqlite.ts";
import { accountColumns, type AccountRow } from "../tables/accounts.ts";
import type { KeyRow, KeyTable } from "../tables/keys.ts";
import { joinSum, splitSum } from "../tables/usage.ts";

/** `search` is a part of a name, in any case of Latin letters. */
interface DirectorySearch {
  readonly search?: string | undefined;
  readonly limit: number;
}

/** Charges in nano-roubles. */
interface Recent {
  readonly requests: number;
  readonly charged: bigint;
}

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

/** Finds accounts by a part of their name, sorted by name, with what they used in the last 30 days. */
export function searchAccounts(
  { db, sqlite }: Connection,
  { search, limit }: DirectorySearch,
  nowMs: number,
): Listed<ListedAccount> {
  const isFound = search === undefined ? undefined : contains(accounts.name, search);
  const keyCount = db.$count(keys, eq(keys.accountId, accounts.id));
  const rows = db
    .select({ ...accountColumns, keys: sql`${keyCount}`.mapWith(Number) })
    .from(accounts)
    .where(isFound)
    .orderBy(asc(accounts.name))
    .limit(limit)
    .all();
  const total = db.select({ total: count() }).from(accounts).where(isFound).get();
  const recent = recentBy(sqlite, "account_id", nowMs);
  return {
    rows: rows.map((row) => withMore(row, { recent: recent.get(row.id) ?? NOTHING })),
    total: total?.total ?? 0,
  };
}

/** Finds keys by a part of their id, label, prefix or account, the newest first. `account` is a name. */
export function searchKeys(
  { db, sqlite }: Connection,
  table: Pick<KeyTable, "newest">,
  { search, limit, account }: DirectorySearch & { readonly account?: string | undefined },
  nowMs: number,
): Listed<ListedKey> {
  const texts = [keys.publicId, keys.label, keys.prefix, accounts.name];
  const isFound =
    search === undefined ? undefined : or(...texts.map((text) => contains(text, search)));
  const ofAccount = account === undefined ? undefined : eq(accounts.name, account);
  const condition = and(isFound, ofAccount);
  const rows = table.newest(condition, limit);
  const total = db
    .select({ total: count() })
    .from(keys)
    .innerJoin(accounts, eq(keys.accountId, accounts.id))
    .where(condition)
    .get();
  const recent = recentBy(sqlite, "key_id", nowMs);
  const newest = newestOfChains(sqlite);
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
function recentBy(
  sqlite: Database,
  group: "account_id" | "key_id",
  nowMs: number,
): ReadonlyMap<number, Recent> {
  const rows = sqlite
    .query<Record<"id" | "requests" | "charge" | "chargeRest", bigint>, [number]>(
      `SELECT ${group} AS id, sum(requests) AS requests, ${splitSum("charge", "charge")}
        FROM daily_totals WHERE day > ? GROUP BY ${group}`,
    )
    .all(Math.floor(nowMs / DAY_MS) - RECENT_DAYS);
  return new Map(
    rows.map(({ id, requests, charge, chargeRest }) => [
      Number(id),
      { requests: Number(requests), charged: joinSum(charge, chargeRest) },
    ]),
  );
}

/** The newest key of each rotation chain, by the first one. */
function newestOfChains(sqlite: Database): ReadonlyMap<number, number> {
  const rows = sqlite
    .query<Record<"first" | "newest", bigint>, []>(
      "SELECT coalesce(first_key_id, id) AS first, max(id) AS newest FROM keys GROUP BY 1",
    )
    .all();
  return new Map(rows.map(({ first, newest }) => [Number(first), Number(newest)]));
}

/** LIKE compares Latin letters without case. The text may contain its wildcards. */
function contains(column: AnySQLiteColumn, text: string): SQL {
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql`${column} LIKE ${pattern} ESCAPE '\\'`;
}
