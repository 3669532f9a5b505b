import { sql, type SQL } from "drizzle-orm";
import {
  cappedSums,
  dailyTotals,
  placeholders,
  totalGroup,
  totalSums,
} from "../../schema/schema.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import type { DailyTotal } from "../../writer/dailyTotal.ts";

/** Prepares the addition to the totals. It runs in the caller's transaction. */
export function prepareAddToTotals(connection: SqliteConnection): (total: DailyTotal) => void {
  const added = totalSums.map((name): [string, SQL] => {
    const sum = sql`${dailyTotals[name]} + ${sql.placeholder(name)}`;
    return [name, cappedSums.includes(name) ? sql`min(${sum}, 9223372036854775807)` : sum];
  });
  const add = prepareStatement(
    connection,
    connection.db
      .insert(dailyTotals)
      .values({ ...placeholders([...totalGroup, ...totalSums]), refunded: sql`0` })
      .onConflictDoUpdate({
        target: totalGroup.map((name) => dailyTotals[name]),
        set: Object.fromEntries(added),
      }),
  );
  return (total) => {
    add.run(total);
  };
}
