import { and, eq, isNotNull, sql } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import { formatRoubles, NANO_ROUBLES_MAX } from "../../lib/money.ts";
import type { Connection } from "../connection.ts";
import { accounts, ledger, requests, type history } from "../schema/schema.ts";
import { StoreError } from "../storeError.ts";

/** `amount` is nano-roubles, negative for a debit and a charge. */
export type LedgerRow = typeof ledger.$inferSelect;
export type LedgerEntry = Omit<LedgerRow, "id" | "seq" | "balanceAfter">;

/** `requestId` is the public id of the request that the row charges or refunds. */
export type HistoryRow = typeof history.$inferSelect & { requestId: string | null };

/** The charge of a request. `amount` is nano-roubles and not negative. `isKept`: the request is not folded. */
export interface Charge {
  accountId: number;
  seq: number;
  amount: bigint;
  isKept: boolean;
}

/** The largest sum of balance and overdraft. All of it may be held, and sums of holds have 64 bits. */
export const SPENDABLE_MAX = 9_223_372_036_854_775_807n;
const CHARGE_REF = "req:";

export function refTakenError(row: LedgerRow): StoreError {
  return new StoreError(
    `ref ${JSON.stringify(row.ref)} was used before for another ledger entry (${row.kind} of ${formatRoubles(row.amount)}): use a new ref`,
  );
}

export type LedgerTable = ReturnType<typeof ledgerTable>;

/** The only code that changes a balance, except the writer with its charges. */
export function ledgerTable(connection: Connection) {
  const { db, dialect } = connection;
  const { balance, overdraft, ledgerSeq: seq } = accounts;
  return {
    /**
     * Appends a row and returns the new balance. Throws if the amount or the balance is out of bounds. Runs in the caller's
     * transaction.
     */
    async append(entry: LedgerEntry): Promise<bigint> {
      const tail = await connection.first(
        db
          .select({ balance, overdraft, seq })
          .from(accounts)
          .where(eq(accounts.id, entry.accountId)),
      );
      assert(tail !== undefined, "no account with this row id");
      assert(
        -NANO_ROUBLES_MAX <= entry.amount && entry.amount <= NANO_ROUBLES_MAX,
        "amount out of bounds",
      );
      const balanceAfter = tail.balance + entry.amount;
      const most = SPENDABLE_MAX - tail.balance - tail.overdraft;
      if (entry.amount > 0n && entry.amount > most) throw tooLargeError(tail.overdraft, most);
      const row = { ...entry, id: dialect.newRowId, seq: tail.seq + 1, balanceAfter };
      await connection.run(db.insert(ledger).values(row));
      return balanceAfter;
    },
    ...ledgerReader(connection),
  };
}

function tooLargeError(overdraft: bigint, most: bigint): StoreError {
  const subject = overdraft === 0n ? "the balance" : "the balance with its overdraft";
  const advice =
    most > 0n
      ? `choose an amount of at most ${formatRoubles(most)} roubles`
      : "nothing can be added";
  return new StoreError(`${subject} would be larger than 64 bits can hold: ${advice}`);
}

function ledgerReader(connection: Connection) {
  const { db } = connection;
  return {
    async history(
      accountId: number,
      limit: number,
      before = Number.MAX_SAFE_INTEGER,
    ): Promise<HistoryRow[]> {
      const rows = await connection.rows<ReadHistoryRow>(HISTORY, { accountId, limit, before });
      return rows.map(historyRow);
    },
    findByRef: (ref: string): Promise<LedgerRow | undefined> =>
      connection.first(db.select().from(ledger).where(eq(ledger.ref, ref))),
    async findCharge(requestPublicId: string): Promise<Charge | undefined> {
      const { accountId, charge, ledgerSeq } = requests;
      const ofKept = await connection.first(
        db
          .select({ accountId, seq: sql`${ledgerSeq}`.mapWith(Number), amount: charge })
          .from(requests)
          .where(and(eq(requests.publicId, requestPublicId), isNotNull(ledgerSeq))),
      );
      if (ofKept !== undefined) return { ...ofKept, isKept: true };
      const ofFolded = await connection.first(
        db
          .select()
          .from(ledger)
          .where(eq(ledger.ref, CHARGE_REF + requestPublicId)),
      );
      return ofFolded && { ...ofFolded, amount: -ofFolded.amount, isKept: false };
    },
    /** Oldest first. */
    refundsOf: (charge: Pick<Charge, "accountId" | "seq">): Promise<LedgerRow[]> =>
      connection.all(
        db
          .select()
          .from(ledger)
          .where(and(eq(ledger.accountId, charge.accountId), eq(ledger.refundOf, charge.seq)))
          .orderBy(ledger.seq),
      ),
  };
}

function historyRow({ chargeRef, ...row }: ReadHistoryRow): HistoryRow {
  return {
    ...row,
    accountId: Number(row.accountId),
    seq: Number(row.seq),
    at: Number(row.at),
    refundOf: row.refundOf === null ? null : Number(row.refundOf),
    requestId: chargeRef === null ? null : chargeRef.slice(CHARGE_REF.length),
  };
}

/** The view `history`, and the ref of the charge that a row makes or refunds. */
const HISTORY = `SELECT account_id AS "accountId", seq, kind, amount, balance_after AS "balanceAfter", ref, actor, note,
    at, refund_of AS "refundOf",
    CASE WHEN kind = 'charge' THEN ref ELSE (SELECT refunded.ref FROM history AS refunded
      WHERE refunded.account_id = history.account_id AND refunded.seq = history.refund_of) END AS "chargeRef"
  FROM history WHERE account_id = $accountId AND seq < $before ORDER BY seq DESC LIMIT $limit`;

interface ReadHistoryRow extends Pick<
  HistoryRow,
  "kind" | "amount" | "balanceAfter" | "ref" | "actor" | "note"
> {
  accountId: bigint;
  seq: bigint;
  at: bigint;
  refundOf: bigint | null;
  chargeRef: string | null;
}
