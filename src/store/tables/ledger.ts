import { desc, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { assert } from "../../lib/assert.ts";
import { formatRoubles, NANO_ROUBLES_MAX } from "../../lib/money.ts";
import { accounts, ledger, newRowId, placeholders } from "../schema/schema.ts";
import { StoreError, type Connection } from "../sqlite.ts";

/** `amount` is nano-roubles, negative for a debit and a charge. */
export type LedgerRow = typeof ledger.$inferSelect;
export type LedgerEntry = Omit<LedgerRow, "id" | "seq" | "balanceAfter">;

/** `requestId` is the public id of the request that the row charges or refunds. */
export interface HistoryRow extends LedgerRow {
  requestId: string | null;
}

/** The account's balance and the number of its last ledger row. */
export interface LedgerTail {
  balance: bigint;
  overdraft: bigint;
  seq: number;
}

/** The only code that changes a balance. Runs in the caller's transaction. */
export interface LedgerTable {
  /**
   * Appends a row and returns the new balance. A known `tail` saves a read; a trigger refuses a row that does not
   * follow it. Throws if the amount or the balance is out of bounds.
   */
  append(entry: LedgerEntry, tail?: LedgerTail): bigint;
  /** Newest first. */
  history(accountId: number, limit: number): HistoryRow[];
  findByRef(ref: string): LedgerRow | undefined;
  /** The refunds of the charge with this row id, oldest first. */
  refundsOf(chargeId: number): LedgerRow[];
}

/** The most that balance and overdraft may be together: all of it may be held, and sums of holds have 64 bits. */
export const SPENDABLE_MAX = 9_223_372_036_854_775_807n;
const CHARGE_REF = "req:";

/** The `ref` of a charge. It is unique, so no request is charged twice. */
export function chargeRef(requestPublicId: string): string {
  return CHARGE_REF + requestPublicId;
}

export function refTakenError(row: LedgerRow): StoreError {
  return new StoreError(
    `ref ${JSON.stringify(row.ref)} was used before for another ledger entry (${row.kind} of ${formatRoubles(row.amount)}): use a new ref`,
  );
}

export function ledgerTable(connection: Connection): LedgerTable {
  const { db } = connection;
  const last = db
    .select({ balance: accounts.balance, overdraft: accounts.overdraft, seq: accounts.ledgerSeq })
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder("accountId")))
    .prepare();
  const insert = db
    .insert(ledger)
    .values({
      id: newRowId,
      ...placeholders("accountId", "seq", "kind", "amount", "balanceAfter", "ref"),
      ...placeholders("actor", "note", "at", "refundOf"),
    })
    .prepare();
  return {
    append(entry, tail = last.get({ accountId: entry.accountId })) {
      assert(tail !== undefined, "no account with this row id");
      assert(
        -NANO_ROUBLES_MAX <= entry.amount && entry.amount <= NANO_ROUBLES_MAX,
        "amount out of bounds",
      );
      const balanceAfter = tail.balance + entry.amount;
      const most = SPENDABLE_MAX - tail.balance - tail.overdraft;
      if (entry.amount > 0n && entry.amount > most) throw tooLargeError(tail, most);
      insert.run({ ...entry, seq: tail.seq + 1, balanceAfter });
      return balanceAfter;
    },
    ...ledgerReader(connection),
  };
}

function tooLargeError({ overdraft }: LedgerTail, most: bigint): StoreError {
  const subject = overdraft === 0n ? "the balance" : "the balance with its overdraft";
  const advice =
    most > 0n
      ? `choose an amount of at most ${formatRoubles(most)} roubles`
      : "nothing can be added";
  return new StoreError(`${subject} would be larger than 64 bits can hold: ${advice}`);
}

function ledgerReader({ db }: Connection): Omit<LedgerTable, "append"> {
  const charge = alias(ledger, "charge");
  return {
    history: (accountId, limit) =>
      db
        .select({ row: ledger, refundedRef: charge.ref })
        .from(ledger)
        .leftJoin(charge, eq(charge.id, ledger.refundOf))
        .where(eq(ledger.accountId, accountId))
        .orderBy(desc(ledger.seq))
        .limit(limit)
        .all()
        .map(historyRow),
    findByRef: (ref) => db.select().from(ledger).where(eq(ledger.ref, ref)).get(),
    refundsOf: (chargeId) =>
      db.select().from(ledger).where(eq(ledger.refundOf, chargeId)).orderBy(ledger.seq).all(),
  };
}

function historyRow({
  row,
  refundedRef,
}: {
  row: LedgerRow;
  refundedRef: string | null;
}): HistoryRow {
  return { ...row, requestId: requestIdOf(row.kind === "charge" ? row.ref : refundedRef) };
}

function requestIdOf(ref: string | null): string | null {
  return ref?.startsWith(CHARGE_REF) ? ref.slice(CHARGE_REF.length) : null;
}
