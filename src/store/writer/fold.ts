import { inArray, lt, ne, and, sql } from "drizzle-orm";
import { lazy } from "../../lib/lazy.ts";
import { attempts, requests, retention } from "../schema/schema.ts";
import type { Connection } from "../sqlite.ts";

/** Requests of one fold. A small transaction does not delay charges. */
export const FOLD_BATCH = 50;

export function prepareFold({ db }: Connection): (before: number) => number {
  const statements = lazy(() => ({
    moveRetentionStart: db
      .update(retention)
      .set({ retentionStart: sql`${sql.placeholder("since")}` })
      .where(lt(retention.retentionStart, sql.placeholder("since")))
      .prepare(),
    oldest: db
      .select({ id: requests.id, at: requests.at })
      .from(requests)
      .where(and(lt(requests.at, sql.placeholder("before")), ne(requests.status, "running")))
      .orderBy(requests.at)
      .limit(FOLD_BATCH)
      .prepare(),
  }));
  return (before) => {
    const { moveRetentionStart, oldest } = statements();
    const folded = oldest.all({ before });
    const newest = folded.at(-1);
    if (!newest) return 0;
    moveRetentionStart.run({ since: newest.at + 1 });
    const ids = folded.map(({ id }) => id);
    db.delete(attempts).where(inArray(attempts.requestId, ids)).run();
    db.delete(requests).where(inArray(requests.id, ids)).run();
    return ids.length;
  };
}
