import { and, eq, inArray, ne, sql, type SQL } from "drizzle-orm";
import { accounts, isRunning, requests } from "../schema/schema.ts";
import { totalsOf } from "../writer/dailyTotal.ts";
import type { SqliteConnection } from "./sqlite.ts";
import { prepareAddToTotals } from "./writer/apply.ts";

/** A statement of SQLite has at most 32,766 values. */
const IDS_MAX = 10_000;

/** The number of interrupted requests, and the sum of the reserves that were released, in nano-roubles. */
export interface Interrupted {
  count: number;
  reserved: bigint;
}

/** What one of several processes left: the public ids of its requests with a row, and its blocks of accounts. */
interface LeftByProcess {
  readonly running: ReadonlySet<string>;
  readonly accounts: ReadonlyMap<number, bigint>;
}

/**
 * Sets all running requests to `interrupted`, adds them to the daily totals, and releases the reserves of all accounts,
 * in one transaction. With `left`: those of one process. Throws SQLite's errors; then nothing is changed.
 */
export function interruptRunning(connection: SqliteConnection, left?: LeftByProcess): Interrupted {
  const { db, sqlite } = connection;
  return sqlite
    .transaction((): Interrupted => {
      const interrupt = (which: SQL | undefined) =>
        db.update(requests).set({ status: "interrupted" }).where(which).returning().all();
      const interrupted = left
        ? partsOf([...left.running]).flatMap((ids) =>
            interrupt(and(inArray(requests.publicId, ids), isRunning)),
          )
        : interrupt(isRunning);
      if (interrupted.length > 0) totalsOf(interrupted).forEach(prepareAddToTotals(connection));
      const reserved = left ? releaseBlocks(connection, left) : releaseReserves(connection);
      return { count: interrupted.length, reserved };
    })
    .immediate();
}

/** Parts of as many ids as one statement takes. */
function partsOf(ids: readonly string[]): readonly string[][] {
  const parts: string[][] = [];
  for (let at = 0; at < ids.length; at += IDS_MAX) parts.push(ids.slice(at, at + IDS_MAX));
  return parts;
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

/** Returns the sum of the blocks. */
function releaseBlocks({ db }: SqliteConnection, left: LeftByProcess): bigint {
  let sum = 0n;
  for (const [id, amount] of left.accounts) {
    sum += amount;
    db.update(accounts)
      .set({ reserved: sql`${accounts.reserved} - ${amount}` })
      .where(eq(accounts.id, id))
      .run();
  }
  return sum;
}
