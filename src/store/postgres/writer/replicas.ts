import type { Endpoint } from "../../../contract/account/requestStatus.ts";
import { totalsOf, type DailyTotal } from "../../writer/dailyTotal.ts";
import {
  arrayOf,
  BEGIN,
  COMMIT,
  statement,
  USUAL_WAIT,
  type Row,
  type Session,
} from "./session.ts";
import { ADD_TO_TOTALS, CLOCK_MS, jsonOf, LOCK_ACCOUNTS } from "./statements.ts";

/** A replica without a heartbeat for this long is ended by any other one, by the clock of the database. */
export const SILENT_MS = 15_000;

/** What the end of a replica released. */
export interface EndedReplica {
  readonly replicaId: number;
  /** The number of its running requests, which end as `interrupted`, without a charge. */
  readonly interrupted: number;
  /** The sum of its blocks, in nano-roubles. */
  readonly released: bigint;
}

const LOCK_REPLICA =
  "SELECT id FROM replicas WHERE id = $1::text::bigint AND ended_at IS NULL FOR UPDATE SKIP LOCKED";
const LOCK_SILENT = `SELECT id FROM replicas WHERE id = $1::text::bigint AND ended_at IS NULL AND seen_at <= ${CLOCK_MS} - ${SILENT_MS} FOR UPDATE SKIP LOCKED`;
const ITS_ACCOUNTS =
  "SELECT account_id FROM reserves WHERE replica_id = $1::text::bigint UNION SELECT account_id FROM requests WHERE replica_id = $1::text::bigint AND status = 'running' AND status <> 'done'";
const RELEASE =
  "UPDATE accounts SET reserved = accounts.reserved - reserves.amount FROM reserves WHERE reserves.replica_id = $1::text::bigint AND reserves.key_id = 0 AND accounts.id = reserves.account_id RETURNING reserves.amount";
const REMOVE_BLOCKS = "DELETE FROM reserves WHERE replica_id = $1::text::bigint";
/** The second condition lets the index of requests that are not done be used. */
const INTERRUPT =
  "UPDATE requests SET status = 'interrupted', replica_id = NULL WHERE replica_id = $1::text::bigint AND status = 'running' AND status <> 'done' RETURNING at, account_id, key_id, model, provider, endpoint";
const END = `UPDATE replicas SET ended_at = ${CLOCK_MS} WHERE id = $1::text::bigint`;

/**
 * Ends a replica in one transaction: its blocks are released, its running requests become `interrupted`, and its lease is
 * refused from then on. With `onlySilent` it must have been silent for SILENT_MS. Returns undefined if it has ended, is
 * not silent, or if another transaction has it: its own batch, or another replica that ends it. Throws if another transaction keeps
 * one of its accounts locked.
 */
export async function endReplica(
  session: Session,
  replicaId: number,
  { onlySilent }: { readonly onlySilent: boolean },
): Promise<EndedReplica | undefined> {
  const id = String(replicaId);
  return await session.transaction(async () => {
    const [, , locked] = await session.run(
      BEGIN,
      USUAL_WAIT,
      statement(onlySilent ? LOCK_SILENT : LOCK_REPLICA, id),
    );
    if (locked?.length !== 1) return undefined;
    // Nothing is added to them any more: a batch of the replica needs the row that is locked.
    const [found = []] = await session.run(statement(ITS_ACCOUNTS, id));
    const accounts = found.map((row) => Number(row["account_id"]));
    await session.run(statement(LOCK_ACCOUNTS, arrayOf(accounts)));
    const [released = [], , interrupted = []] = await session.run(
      statement(RELEASE, id),
      statement(REMOVE_BLOCKS, id),
      statement(INTERRUPT, id),
      statement(END, id),
    );
    const totals = jsonOf(interruptedTotals(interrupted));
    await session.run(statement(ADD_TO_TOTALS, totals), COMMIT);
    return {
      replicaId,
      interrupted: interrupted.length,
      released: released.reduce((sum, row) => sum + (row["amount"] as bigint), 0n),
    };
  });
}

/** What interrupted requests add to the totals. */
export function interruptedTotals(interrupted: readonly Row[]): readonly DailyTotal[] {
  return totalsOf(
    interrupted.map((row) => ({
      status: "interrupted",
      at: Number(row["at"]),
      accountId: Number(row["account_id"]),
      keyId: Number(row["key_id"]),
      model: row["model"] as string,
      provider: row["provider"] as string | null,
      endpoint: row["endpoint"] as Endpoint,
    })),
  );
}
