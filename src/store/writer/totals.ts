import { sql } from "drizzle-orm";
import { dailyTotals, placeholders } from "../schema/schema.ts";
import type { Connection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import { DAY_MS } from "../../lib/clock.ts";

/** What ended requests of one group add to the totals of a day. */
export interface DailyTotal {
  /** Days since 1970, in UTC. */
  readonly day: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly model: string;
  /** Empty where no provider answered. */
  readonly provider: string;
  readonly endpoint: string;
  requests: number;
  failed: number;
  /** Requests with a charge, also of 0. */
  charged: number;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
  charge: bigint;
  writeOff: bigint;
  operatorCost: bigint;
}

export function dayOf(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}

const GROUP = ["day", "accountId", "keyId", "model", "provider", "endpoint"] as const;
const SUMS = [
  "requests",
  "failed",
  "charged",
  "promptTokens",
  "cachedTokens",
  "cacheWriteTokens",
  "completionTokens",
  "charge",
] as const;
/** These sums stay at the largest 64-bit integer. */
const SATURATED = ["writeOff", "operatorCost"] as const;
const SUM_MAX = "9223372036854775807";

/** Prepares the addition to the totals. It runs in the caller's transaction. */
export function prepareAddToTotals(connection: Connection): (total: DailyTotal) => void {
  const names = [...GROUP, ...SUMS, ...SATURATED] as const;
  const sums = SUMS.map((name) => [
    name,
    sql`${dailyTotals[name]} + excluded.${sql.identifier(dailyTotals[name].name)}`,
  ]);
  const saturated = SATURATED.map((name) => [
    name,
    sql`min(${dailyTotals[name]} + excluded.${sql.identifier(dailyTotals[name].name)}, ${sql.raw(SUM_MAX)})`,
  ]);
  const add = prepareStatement(
    connection,
    connection.db
      .insert(dailyTotals)
      .values({ ...placeholders(...names), refunded: sql`0` })
      .onConflictDoUpdate({
        target: GROUP.map((name) => dailyTotals[name]),
        set: Object.fromEntries([...sums, ...saturated]) as Record<string, ReturnType<typeof sql>>,
      }),
    names,
  );
  return (total) => {
    add.run(...names.map((name) => total[name]));
  };
}
