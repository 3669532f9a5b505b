import { desc, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { assert } from "../../lib/assert.ts";
import { formatRoubles, NANO_ROUBLES_MAX } from "../../lib/money.ts";
import { accounts, ledger, newRowId, placeholders } from "../schema/schema.ts";
import { StoreError, type Connection } from "../sqlite.ts";

export type LedgerKind = (typeof ledger.$inferSelect)["kind"];

/** What is appended: `amount` in nano-roubles, negative for a debit and a charge. */
export interface LedgerEntry {
  accountId: number;
  kind: LedgerKind;
  amount: bigint;
  ref: string | null;
  actor: string | null;
  note: string | null;
  at: number;
  /** The ledger row of the charge that a refund gives back; null for the other kinds. */
  refundOf: number | null;
}

export interface LedgerRow extends LedgerEntry {
  id: number;
  seq: number;
  balanceAfter: bigint;
}

/** A row of an account's history; `requestId` is the public id of the request that it charges or refunds. */
export interface HistoryRow extends LedgerRow {
  requestId: string | null;
}

/** Where the ledger of an account ends. */
export interface LedgerTail {
  balance: bigint;
  overdraft: bigint;
  seq: number;
}

/** The only code that moves a balance. Its callers hold the transaction. */
export interface LedgerTable {
  /**
   * Appends and returns the balance after. `end`, where it is known, spares a read; the store refuses a
   * row that does not follow. Throws when the amount or the balance would leave its bounds.
   */
  append(entry: LedgerEntry, end?: LedgerTail): bigint;
  /** Newest first. */
  history(accountId: number, limit: number): HistoryRow[];
  findByRef(ref: string): LedgerRow | undefined;
  /** The refunds of a charge, oldest first; by the id of its row. */
  refundsOf(chargeId: number): LedgerRow[];
}

/** Balance and overdraft together, for so much may be held at once: what 64 bits can sum up. */
export const SPENDABLE_MAX = 9_223_372_036_854_775_807n;
const CHARGE_REF = "req:";

/** A charge's `ref` names its request, so that no request is charged twice. */
export function chargeRef(requestPublicId: string): string {
  return CHARGE_REF + requestPublicId;
}

/** A ref names one booking only. */
export function refTakenError(row: LedgerRow): StoreError {
  return new StoreError(
    `ref ${JSON.stringify(row.ref)} was used before for another booking (${row.kind} of ${formatRoubles(row.amount)}): use a new ref`,
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
    append(entry, end = last.get({ accountId: entry.accountId })) {
      assert(end !== undefined, "the ledger of no account");
      assert(
        -NANO_ROUBLES_MAX <= entry.amount && entry.amount <= NANO_ROUBLES_MAX,
        "amount out of bounds",
      );
      const balanceAfter = end.balance + entry.amount;
      const most = SPENDABLE_MAX - end.balance - end.overdraft;
      if (entry.amount > 0n && entry.amount > most) throw tooLarge(end, most);
      insert.run({ ...entry, seq: end.seq + 1, balanceAfter });
      return balanceAfter;
    },
    ...ledgerReader(connection),
  };
}

function tooLarge({ overdraft }: LedgerTail, most: bigint): StoreError {
  const what = overdraft === 0n ? "the balance" : "the balance with its overdraft";
  const advice =
    most > 0n ? `choose an amount of at most ${formatRoubles(most)} roubles` : "it takes no more";
  return new StoreError(`${what} would be larger than can be kept: ${advice}`);
}

function ledgerReader({ db }: Connection): Omit<LedgerTable, "append"> {
  const charge = alias(ledger, "charge");
  return {
    history: (accountId, limit) =>
      db
        .select({ row: ledger, chargeRef: charge.ref })
        .from(ledger)
        .leftJoin(charge, eq(charge.id, ledger.refundOf))
        .where(eq(ledger.accountId, accountId))
        .orderBy(desc(ledger.seq))
        .limit(limit)
        .all()
        .map(({ row, chargeRef }) =>
          Object.assign(row, { requestId: requestOf(row.kind === "charge" ? row.ref : chargeRef) }),
        ),
    findByRef: (ref) => db.select().from(ledger).where(eq(ledger.ref, ref)).get(),
    refundsOf: (chargeId) =>
      db.select().from(ledger).where(eq(ledger.refundOf, chargeId)).orderBy(ledger.seq).all(),
  };
}

function requestOf(ref: string | null): string | null {
  return ref?.startsWith(CHARGE_REF) ? ref.slice(CHARGE_REF.length) : null;
}
