import { and, inArray, isNotNull, lt, ne, sql } from "drizzle-orm";
import { lazy } from "../../../lib/lazy.ts";
import {
  attempts,
  ledger,
  newRowId,
  requestFigures,
  requests,
  retention,
} from "../../schema/schema.ts";
import { FOLD_BATCH } from "../../writer/folding.ts";
import type { SqliteConnection } from "../sqlite.ts";

/**
 * Removes a batch of ended requests that were admitted before a time, with their attempts and figures. Their charges move into the
 * ledger. Their daily totals stay. Returns their number: less than FOLD_BATCH when none are left. Runs in the caller's
 * transaction.
 */
export function prepareFold({ db }: SqliteConnection): (before: number) => number {
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
    // Not `before`: newer requests are still there.
    moveRetentionStart.run({ since: newest.at + 1 });
    const ids = folded.map(({ id }) => id);
    moveCharges(db, ids);
    db.delete(attempts).where(inArray(attempts.requestId, ids)).run();
    db.delete(requestFigures).where(inArray(requestFigures.requestId, ids)).run();
    db.delete(requests).where(inArray(requests.id, ids)).run();
    return ids.length;
  };
}

/** Writes the rows that the view `history` shows, so that a history does not change when its requests are folded. */
function moveCharges(db: SqliteConnection["db"], requestIds: number[]): void {
  db.insert(ledger)
    .select(
      db
        .select({
          id: sql<number>`${newRowId}`.as("id"),
          accountId: requests.accountId,
          seq: sql<number>`${requests.ledgerSeq}`.as("seq"),
          kind: sql<"charge">`'charge'`.as("kind"),
          amount: sql<bigint>`-${requests.charge}`.as("amount"),
          balanceAfter: sql<bigint>`${requests.balanceAfter}`.as("balance_after"),
          ref: sql<string>`'req:' || ${requests.publicId}`.as("ref"),
          actor: sql<null>`NULL`.as("actor"),
          note: sql<null>`NULL`.as("note"),
          at: sql<number>`${requests.at} + coalesce(${requests.durationMs}, 0)`.as("at"),
          refundOf: sql<null>`NULL`.as("refund_of"),
        })
        .from(requests)
        .where(and(inArray(requests.id, requestIds), isNotNull(requests.ledgerSeq)))
        .orderBy(requests.id),
    )
    .run();
}
