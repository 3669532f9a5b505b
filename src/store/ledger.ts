import { desc, eq, sql } from "drizzle-orm";
import { assert } from "../lib/assert.ts";
import { NANO_ROUBLES_MAX } from "../lib/money.ts";
import { accounts, ledger, newRowId } from "./schema.ts";
import { StoreError, type Connection } from "./sqlite.ts";

export type LedgerKind = "credit" | "debit" | "charge" | "refund";

/** What is appended: `amount` in nano-roubles, negative for a debit and a charge. */
export interface LedgerEntry {
  accountId: number;
  kind: LedgerKind;
  amount: bigint;
  ref: string | null;
  actor: string | null;
  note: string | null;
  at: number;
}

export interface LedgerRow extends LedgerEntry {
  id: number;
  seq: number;
  balanceAfter: bigint;
}

/** The only code that moves a balance. Its callers hold the transaction. */
export interface LedgerTable {
  /** Appends and returns the balance after. Throws when the amount or the balance would leave its bounds. */
  append(entry: LedgerEntry): bigint;
  /** Newest first. */
  history(accountId: number, limit: number): LedgerRow[];
  findByRef(ref: string): LedgerRow | undefined;
}

const INT64_MAX = 9_223_372_036_854_775_807n;

/** A charge's `ref` names its request, so that no request is charged twice. */
export function chargeRef(requestPublicId: string): string {
  return `req:${requestPublicId}`;
}

export function ledgerTable({ db }: Connection): LedgerTable {
  const last = db
    .select({ balance: accounts.balance, seq: accounts.ledgerSeq })
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder("accountId")))
    .prepare();
  const insert = db
    .insert(ledger)
    .values({
      id: newRowId,
      accountId: sql.placeholder("accountId"),
      seq: sql.placeholder("seq"),
      kind: sql.placeholder("kind"),
      amount: sql.placeholder("amount"),
      balanceAfter: sql.placeholder("balanceAfter"),
      ref: sql.placeholder("ref"),
      actor: sql.placeholder("actor"),
      note: sql.placeholder("note"),
      at: sql.placeholder("at"),
    })
    .prepare();
  const byAccount = db
    .select()
    .from(ledger)
    .where(eq(ledger.accountId, sql.placeholder("accountId")))
    .orderBy(desc(ledger.seq))
    .limit(sql.placeholder("limit"))
    .prepare();
  const byRef = db
    .select()
    .from(ledger)
    .where(eq(ledger.ref, sql.placeholder("ref")))
    .prepare();
  return {
    append(entry) {
      const account = last.get({ accountId: entry.accountId });
      assert(account !== undefined, "the ledger of no account");
      assert(
        -NANO_ROUBLES_MAX <= entry.amount && entry.amount <= NANO_ROUBLES_MAX,
        "amount out of bounds",
      );
      const balanceAfter = account.balance + entry.amount;
      if (balanceAfter > INT64_MAX)
        throw new StoreError("the balance would be larger than can be kept");
      insert.run({ ...entry, seq: account.seq + 1, balanceAfter });
      return balanceAfter;
    },
    history: (accountId, limit) => byAccount.all({ accountId, limit }),
    findByRef: (ref) => byRef.get({ ref }),
  };
}
