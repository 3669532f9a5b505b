import type { Database } from "bun:sqlite";
import type { Problems } from "./problems.ts";

/** What the ledger says of one account: nano-roubles. */
export interface LedgerSums {
  readonly name: string;
  readonly balance: bigint;
  readonly seq: bigint;
  sum: bigint;
  rows: bigint;
  /** The last row, which the next one must follow. */
  last: { seq: bigint; balance: bigint };
  /** How many charges it has, and what they and its refunds are in sum, both positive. */
  charged: bigint;
  charge: bigint;
  refunded: bigint;
}

interface Row {
  id: bigint;
  account: bigint;
  seq: bigint;
  kind: string;
  amount: bigint;
  balanceAfter: bigint;
  ref: string | null;
}

/**
 * Walks the whole ledger once in the order in which it was written: no sum of it is kept but one for
 * each account, however long it is. Returns the sums by the account's row id.
 */
export function auditLedger(sqlite: Database, problems: Problems): Map<bigint, LedgerSums> {
  const accounts = new Map<bigint, LedgerSums>();
  const found = sqlite.query<{ id: bigint; name: string; balance: bigint; seq: bigint }, []>(
    "SELECT id, name, balance, ledger_seq AS seq FROM accounts",
  );
  for (const { id, ...account } of found.iterate()) {
    const empty = { sum: 0n, rows: 0n, last: { seq: 0n, balance: 0n } };
    accounts.set(id, { ...account, ...empty, charged: 0n, charge: 0n, refunded: 0n });
  }
  const rows = sqlite.query<Row, []>(
    "SELECT id, account_id AS account, seq, kind, amount, balance_after AS balanceAfter, ref FROM ledger ORDER BY id",
  );
  for (const row of rows.iterate()) {
    const account = accounts.get(row.account);
    if (!account) {
      problems.add(`ledger row ${row.id}`, "belongs to no account");
      continue;
    }
    const { last } = account;
    if (row.seq !== last.seq + 1n || row.balanceAfter !== last.balance + row.amount)
      problems.add(`ledger row ${row.id}`, "does not follow from the row before it");
    if (!isSound(row)) problems.add(`ledger row ${row.id}`, "is not what its kind may be");
    account.last = { seq: row.seq, balance: row.balanceAfter };
    account.sum += row.amount;
    account.rows += 1n;
    if (row.kind === "refund") account.refunded += row.amount;
    if (row.kind === "charge") {
      account.charged += 1n;
      account.charge -= row.amount;
    }
  }
  for (const { name, balance, seq, sum, rows, last } of accounts.values()) {
    if (balance !== sum || seq !== rows || seq !== last.seq)
      problems.add(`account ${name}`, "balance is not the sum of its ledger");
  }
  return accounts;
}

/** Credits and refunds add, debits and charges do not; charges, and nothing else, name a request. */
function isSound({ kind, amount, ref }: Row): boolean {
  const isCharge = kind === "charge";
  if (isCharge !== (ref?.startsWith("req:") ?? false)) return false;
  if (isCharge || kind === "debit") return amount <= 0n;
  return (kind === "credit" || kind === "refund") && amount > 0n;
}
