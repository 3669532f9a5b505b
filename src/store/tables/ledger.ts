import { and, desc, eq, getViewSelectedFields, isNotNull, lt, sql, type SQL } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import { formatRoubles, NANO_ROUBLES_MAX } from "../../lib/money.ts";
import { accounts, history, ledger, newRowId, placeholders, requests } from "../schema/schema.ts";
import { StoreError, type Connection } from "../sqlite/sqlite.ts";

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

/** The only code that changes a balance, except the writer with its charges. Runs in the caller's transaction. */
export interface LedgerTable {
  /** Appends a row and returns the new balance. Throws if the amount or the balance is out of bounds. */
  append(entry: LedgerEntry): bigint;
  /** Newest first. `before`: only rows with a smaller number. */
  history(accountId: number, limit: number, before?: number): HistoryRow[];
  findByRef(ref: string): LedgerRow | undefined;
  findCharge(requestPublicId: string): Charge | undefined;
  /** The refunds of this charge, oldest first. */
  refundsOf(charge: Pick<Charge, "accountId" | "seq">): LedgerRow[];
}

/** The most that balance and overdraft may be together: all of it may be held, and sums of holds have 64 bits. */
export const SPENDABLE_MAX = 9_223_372_036_854_775_807n;
const CHARGE_REF = "req:";

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
    append(entry) {
      const tail = last.get({ accountId: entry.accountId });
      assert(tail !== undefined, "no account with this row id");
      assert(
        -NANO_ROUBLES_MAX <= entry.amount && entry.amount <= NANO_ROUBLES_MAX,
        "amount out of bounds",
      );
      const balanceAfter = tail.balance + entry.amount;
      const most = SPENDABLE_MAX - tail.balance - tail.overdraft;
      if (entry.amount > 0n && entry.amount > most) throw tooLargeError(tail.overdraft, most);
      insert.run({ ...entry, seq: tail.seq + 1, balanceAfter });
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

function ledgerReader({ db }: Connection): Omit<LedgerTable, "append"> {
  const refunded = sql`(SELECT refunded.ref FROM ${history} AS refunded
    WHERE refunded.account_id = ${history.accountId} AND refunded.seq = ${history.refundOf})`;
  const chargeRef = sql`iif(${history.kind} = 'charge', ${history.ref}, ${refunded})`;
  return {
    history: (accountId, limit, before) =>
      db
        .select({
          ...getViewSelectedFields(history),
          requestId: chargeRef.mapWith(requestIdOf) as SQL<string | null>,
        })
        .from(history)
        .where(
          and(
            eq(history.accountId, accountId),
            before === undefined ? undefined : lt(history.seq, before),
          ),
        )
        .orderBy(desc(history.seq))
        .limit(limit)
        .all(),
    findByRef: (ref) => db.select().from(ledger).where(eq(ledger.ref, ref)).get(),
    findCharge(requestPublicId) {
      const { accountId, charge, ledgerSeq } = requests;
      const ofKept = db
        .select({ accountId, seq: sql`${ledgerSeq}`.mapWith(Number), amount: charge })
        .from(requests)
        .where(and(eq(requests.publicId, requestPublicId), isNotNull(ledgerSeq)))
        .get();
      if (ofKept !== undefined) return { ...ofKept, isKept: true };
      const ofFolded = db
        .select()
        .from(ledger)
        .where(eq(ledger.ref, CHARGE_REF + requestPublicId))
        .get();
      return ofFolded && { ...ofFolded, amount: -ofFolded.amount, isKept: false };
    },
    refundsOf: (charge) =>
      db
        .select()
        .from(ledger)
        .where(and(eq(ledger.accountId, charge.accountId), eq(ledger.refundOf, charge.seq)))
        .orderBy(ledger.seq)
        .all(),
  };
}

function requestIdOf(ref: string): string {
  return ref.slice(CHARGE_REF.length);
}
