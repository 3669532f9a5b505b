import { sql } from "drizzle-orm";
import { dailyTotals, placeholders } from "../../schema/schema.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import type { DailyTotal } from "../../writer/dailyTotal.ts";

const GROUP = ["day", "accountId", "keyId", "model", "provider", "endpoint"] as const;
/** In the order of the table. */
const SUMS = {
  requests: sql`${dailyTotals.requests} + excluded.requests`,
  failed: sql`${dailyTotals.failed} + excluded.failed`,
  charged: sql`${dailyTotals.charged} + excluded.charged`,
  promptTokens: sql`${dailyTotals.promptTokens} + excluded.prompt_tokens`,
  cachedTokens: sql`${dailyTotals.cachedTokens} + excluded.cached_tokens`,
  cacheWriteTokens: sql`${dailyTotals.cacheWriteTokens} + excluded.cache_write_tokens`,
  completionTokens: sql`${dailyTotals.completionTokens} + excluded.completion_tokens`,
  charge: sql`${dailyTotals.charge} + excluded.charge`,
  // These two stay at the largest 64-bit integer.
  writeOff: sql`min(${dailyTotals.writeOff} + excluded.write_off, 9223372036854775807)`,
  operatorCost: sql`min(${dailyTotals.operatorCost} + excluded.operator_cost, 9223372036854775807)`,
  cacheWrite1hTokens: sql`${dailyTotals.cacheWrite1hTokens} + excluded.cache_write_1h_tokens`,
  webSearches: sql`${dailyTotals.webSearches} + excluded.web_searches`,
} as const;
const COLUMNS = [...GROUP, ...(Object.keys(SUMS) as (keyof typeof SUMS)[])];

/** Prepares the addition to the totals. It runs in the caller's transaction. */
export function prepareAddToTotals(connection: SqliteConnection): (total: DailyTotal) => void {
  const add = prepareStatement(
    connection,
    connection.db
      .insert(dailyTotals)
      .values({ ...placeholders(...COLUMNS), refunded: sql`0` })
      .onConflictDoUpdate({ target: GROUP.map((name) => dailyTotals[name]), set: SUMS }),
    COLUMNS,
  );
  return (total) => {
    add.run(...COLUMNS.map((name) => total[name]));
  };
}
