import { FOLD_BATCH } from "../../writer/folding.ts";
import { LOCKS } from "../locks.ts";
import type { BatchNumber } from "./apply.ts";
import { Fenced } from "./failures.ts";
import { arrayOf, BEGIN, COMMIT, statement, USUAL_WAIT, type Session } from "./session.ts";
import { FENCE, LOCK_ACCOUNTS } from "./statements.ts";

const LOCK_FOLDING = `SELECT pg_try_advisory_xact_lock(${LOCKS.folding}) AS is_mine`;
const OLDEST = `SELECT id, at, account_id FROM requests WHERE at < $1::text::bigint AND status <> 'running' ORDER BY at LIMIT ${FOLD_BATCH}`;
/** Not `before`: newer requests are still there. */
const MOVE_START =
  "UPDATE retention SET kept_since = $1::text::bigint WHERE kept_since < $1::text::bigint";
/** Writes the rows that the view `history` shows, so that a history does not change when its requests are folded. */
const MOVE_CHARGES =
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:' || public_id, at + coalesce(duration_ms, 0) FROM requests WHERE id = ANY($1::text::bigint[]) AND ledger_seq IS NOT NULL ORDER BY id";
const REMOVE_ATTEMPTS = "DELETE FROM attempts WHERE request_id = ANY($1::text::bigint[])";
const REMOVE_FIGURES = "DELETE FROM request_figures WHERE request_id = ANY($1::text::bigint[])";
const REMOVE = "DELETE FROM requests WHERE id = ANY($1::text::bigint[])";

/**
 * Removes a batch of ended requests that were admitted before a time, as `prepareFold` does. Returns their number, 0 while
 * another replica folds. A transaction of its own: it locks accounts that have nothing to do with a batch.
 */
export async function fold(session: Session, before: number, batch: BatchNumber): Promise<number> {
  return await session.transaction(async () => {
    const [, , fence, lock, found = []] = await session.run(
      BEGIN,
      USUAL_WAIT,
      statement(FENCE, String(batch.number), String(batch.lease)),
      statement(LOCK_FOLDING),
      statement(OLDEST, String(before)),
    );
    if (fence?.length !== 1) throw new Fenced("another replica has ended this one");
    const newest = found.at(-1);
    if (lock?.[0]?.["is_mine"] !== true || newest === undefined) return 0;
    const ids = arrayOf(found.map((row) => Number(row["id"])));
    // A refund looks at its request with the account locked. The request does not go meanwhile.
    const accounts = arrayOf(new Set(found.map((row) => Number(row["account_id"]))));
    await session.run(
      statement(LOCK_ACCOUNTS, accounts),
      statement(MOVE_START, String(Number(newest["at"]) + 1)),
      statement(MOVE_CHARGES, ids),
      statement(REMOVE_ATTEMPTS, ids),
      statement(REMOVE_FIGURES, ids),
      statement(REMOVE, ids),
      COMMIT,
    );
    return found.length;
  });
}
