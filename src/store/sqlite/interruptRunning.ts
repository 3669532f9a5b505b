import { ne } from "drizzle-orm";
import { accounts, isRunning, requests } from "../schema/schema.ts";
import { totalsOf } from "../writer/dailyTotal.ts";
import type { SqliteConnection } from "./sqlite.ts";
import { prepareAddToTotals } from "./writer/apply.ts";

/** The number of interrupted requests, and the sum of the reserves that were released, in nano-roubles. */
export interface Interrupted {
  count: number;
  reserved: bigint;
}

/**
 * Sets all running requests to `interrupted`, adds them to the daily totals, and releases the reserves of all accounts,
 * in one transaction. Throws SQLite's errors; then nothing is changed.
 */
export function interruptRunning(connection: SqliteConnection): Interrupted {
  const { db, sqlite } = connection;
  return sqlite
    .transaction((): Interrupted => {
      const interrupted = db
        .update(requests)
        .set({ status: "interrupted" })
        .where(isRunning)
        .returning()
        .all();
      if (interrupted.length > 0) totalsOf(interrupted).forEach(prepareAddToTotals(connection));
      return { count: interrupted.length, reserved: releaseReserves(connection) };
    })
    .immediate();
}

/** Returns the sum of the reserves. */
function releaseReserves({ db }: SqliteConnection): bigint {
  const released = db
    .select({ reserved: accounts.reserved })
    .from(accounts)
    .where(ne(accounts.reserved, 0n))
    .all();
  if (released.length > 0)
    db.update(accounts).set({ reserved: 0n }).where(ne(accounts.reserved, 0n)).run();
  return released.reduce((sum, { reserved }) => sum + reserved, 0n);
}
