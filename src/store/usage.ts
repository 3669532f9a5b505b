import { and, eq, gte, lt, sql, type SQL } from "drizzle-orm";
import { accounts, keys, requests } from "./schema.ts";
import type { Connection } from "./sqlite.ts";

export const usageGroupings = ["day", "model", "provider", "account", "key"] as const;
export type UsageGrouping = (typeof usageGroupings)[number];

/** Sums over the requests of one group; `group` is a UTC date for days. Amounts are nano-roubles. */
export interface UsageRow {
  group: string;
  requests: number;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
  cost: bigint;
  /** What the operator pays for them, as far as the routes' cost is configured. */
  operatorCost: bigint;
  failed: number;
}

/** `since` inclusive, `until` exclusive; milliseconds since 1970. */
export interface UsageFilter {
  account?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
}

const groupColumns: Record<UsageGrouping, SQL<string>> = {
  day: sql`strftime('%Y-%m-%d', ${requests.at} / 1000, 'unixepoch')`,
  model: sql`${requests.model}`,
  provider: sql`coalesce(${requests.provider}, '')`,
  account: sql`${accounts.name}`,
  key: sql`${keys.publicId}`,
};

/** Days oldest first, other groups by name. */
export function usageReport(
  { db }: Connection,
  by: UsageGrouping,
  filter: UsageFilter,
): UsageRow[] {
  const group = groupColumns[by];
  const tokens = (column: SQL) => sql<number>`sum(${column})`.mapWith(Number);
  return db
    .select({
      group: sql<string>`${group}`,
      requests: sql<number>`count(*)`.mapWith(Number),
      promptTokens: tokens(sql`${requests.promptTokens}`),
      cachedTokens: tokens(sql`${requests.cachedTokens}`),
      cacheWriteTokens: tokens(sql`${requests.cacheWriteTokens}`),
      completionTokens: tokens(sql`${requests.completionTokens}`),
      cost: sql<bigint>`sum(${requests.charge})`.mapWith(BigInt),
      operatorCost: sql<bigint>`coalesce(sum(${requests.operatorCost}), 0)`.mapWith(BigInt),
      failed: sql<number>`sum(${requests.status} IN ('failed', 'interrupted'))`.mapWith(Number),
    })
    .from(requests)
    .innerJoin(accounts, eq(requests.accountId, accounts.id))
    .innerJoin(keys, eq(requests.keyId, keys.id))
    .where(
      and(
        filter.account === undefined ? undefined : eq(accounts.name, filter.account),
        filter.since === undefined ? undefined : gte(requests.at, filter.since),
        filter.until === undefined ? undefined : lt(requests.at, filter.until),
      ),
    )
    .groupBy(group)
    .orderBy(group)
    .all();
}
