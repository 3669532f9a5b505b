import { and, inArray, lt, ne, sql } from "drizzle-orm";
import { lazy } from "../lib/lazy.ts";
import { attempts, requests, retention } from "./requestSchema.ts";
import type { Connection } from "./sqlite.ts";

/** How many requests go in one transaction: it must not keep charges waiting. */
export const FOLDED_AT_ONCE = 50;

/**
 * Folds requests: removes ended ones that were admitted before a time, with their attempts. Their
 * daily totals and ledger rows stay. Returns how many: less than it may at once when none are left. Its caller holds the transaction.
 */
export function requestFolder({ db }: Connection): (before: number) => number {
  const statements = lazy(() => ({
    keepSince: db
      .update(retention)
      .set({ keptSince: sql`${sql.placeholder("since")}` })
      .where(lt(retention.keptSince, sql.placeholder("since")))
      .prepare(),
    oldest: db
      .select({ id: requests.id, at: requests.at })
      .from(requests)
      .where(and(lt(requests.at, sql.placeholder("before")), ne(requests.status, "running")))
      .orderBy(requests.at)
      .limit(FOLDED_AT_ONCE)
      .prepare(),
  }));
  return (before) => {
    const { keepSince, oldest } = statements();
    const folded = oldest.all({ before });
    const newest = folded.at(-1);
    if (!newest) return 0;
    // No later than what is really gone: more than that is still told apart.
    keepSince.run({ since: newest.at + 1 });
    const ids = folded.map(({ id }) => id);
    db.delete(attempts).where(inArray(attempts.requestId, ids)).run();
    db.delete(requests).where(inArray(requests.id, ids)).run();
    return ids.length;
  };
}
