import type { Database } from "bun:sqlite";
import { type Problems, PROBLEMS_PER_RULE_MAX } from "./integrity.ts";
import { joinSum, splitSum } from "../tables/usage.ts";

/** The sums of one account's ledger, in nano-roubles. */
export interface LedgerSums {
  readonly name: string;
  readonly balance: bigint;
  readonly seq: bigint;
  sum: bigint;
  rows: bigint;
  /** The last row that was read. */
  last: { seq: bigint; balance: bigint };
  /** The number of charges, and the sums of charges and refunds, both positive. */
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

/** Reads the whole ledger once in the order of writing. Returns the sums by the account's row id. */
export function auditLedger(sqlite: Database, problems: Problems): Map<bigint, LedgerSums> {
  const accounts = new Map<bigint, LedgerSums>();
  const accountRows = sqlite.query<{ id: bigint; name: string; balance: bigint; seq: bigint }, []>(
    "SELECT id, name, balance, ledger_seq AS seq FROM accounts",
  );
  for (const { id, ...account } of accountRows.iterate()) {
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
    if (!isValid(row))
      problems.add(`ledger row ${row.id}`, "has an amount or a ref that its kind excludes");
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

/** Credits and refunds are positive, debits and charges are not. Only the ref of a charge names a request. */
function isValid({ kind, amount, ref }: Row): boolean {
  const isCharge = kind === "charge";
  if (isCharge !== (ref?.startsWith("req:") ?? false)) return false;
  if (isCharge || kind === "debit") return amount <= 0n;
  return (kind === "credit" || kind === "refund") && amount > 0n;
}

/** Charges and refunds of one account, both positive. */
export interface ChargeSums {
  charged: bigint;
  charge: bigint;
  refunded: bigint;
}

interface KeyTotals extends ChargeSums {
  account: bigint;
  key: bigint;
}

const TOTALS_BY_KEY = `SELECT key_id AS key, account_id AS account, sum(charged) AS charged,
    ${splitSum("charge", "charge")}, ${splitSum("refunded", "refunded")}
  FROM daily_totals GROUP BY 1, 2`;
const ROWS_WITHOUT_REQUEST = `SELECT l.id, l.account_id AS account, l.kind, l.amount FROM ledger l
  LEFT JOIN ledger c ON c.id = l.refund_of
  WHERE l.kind IN ('charge', 'refund')
    AND NOT EXISTS (SELECT 1 FROM requests WHERE public_id = substr(coalesce(c.ref, l.ref), 5))`;
interface RowWithoutRequest {
  id: bigint;
  account: bigint;
  kind: "charge" | "refund";
  amount: bigint;
}

const NOTHING: Readonly<ChargeSums> = { charged: 0n, charge: 0n, refunded: 0n };

/**
 * Compares the daily totals with the ledger and with the spending of each key. Call it last: it searches for single
 * rows only after a problem was found. `folded`: what the totals count beyond the existing requests.
 */
export function auditSpending(
  sqlite: Database,
  ledger: ReadonlyMap<bigint, LedgerSums>,
  folded: ReadonlyMap<bigint, ChargeSums>,
  problems: Problems,
): void {
  const totals = sqlite
    .query<KeyTotals & { chargeRest: bigint; refundedRest: bigint }, []>(TOTALS_BY_KEY)
    .all()
    .map(({ account, key, charged, charge, chargeRest, refunded, refundedRest }) => ({
      account,
      key,
      charged,
      charge: joinSum(charge, chargeRest),
      refunded: joinSum(refunded, refundedRest),
    }));
  compareWithLedger(sqlite, { ledger, totals, folded }, problems);
  compareWithKeys(sqlite, totals, problems);
}

/**
 * A charge without a request must belong to a folded request. The rules before this one prove that each charged request
 * has its own charge, which the totals count. So if the totals count as many charges as the ledger has, all other
 * charges belong to folded requests, and none needs a lookup.
 */
function compareWithLedger(
  sqlite: Database,
  sums: {
    ledger: ReadonlyMap<bigint, LedgerSums>;
    totals: readonly KeyTotals[];
    folded: ReadonlyMap<bigint, ChargeSums>;
  },
  problems: Problems,
): void {
  const counted = new Map<bigint, ChargeSums>();
  for (const total of sums.totals) addTo(counted, total.account, total);
  const isSame = (account: bigint, ledger: LedgerSums): boolean =>
    areEqual(ledger, counted.get(account) ?? NOTHING);
  const differing = [...sums.ledger].filter(([account, ledger]) => !isSame(account, ledger));
  if (problems.lines.length === 0 && differing.length === 0) return;
  const found = problems.lines.length;
  findRowsWithoutRequest(sqlite, sums, problems);
  if (problems.lines.length > found) return;
  for (const [, { name }] of differing)
    problems.add(`account ${name}`, "charges and refunds are not what the totals count");
}

export function addTo(
  accounts: Map<bigint, ChargeSums>,
  account: bigint,
  { charged, charge, refunded }: Readonly<ChargeSums>,
): void {
  const sums = accounts.get(account) ?? { ...NOTHING };
  accounts.set(account, sums);
  sums.charged += charged;
  sums.charge += charge;
  sums.refunded += refunded;
}

function areEqual(a: Readonly<ChargeSums>, b: Readonly<ChargeSums>): boolean {
  return a.charged === b.charged && a.charge === b.charge && a.refunded === b.refunded;
}

/** Compares the charges and refunds without a request with what was folded. */
function findRowsWithoutRequest(
  sqlite: Database,
  {
    ledger,
    folded,
  }: { ledger: ReadonlyMap<bigint, LedgerSums>; folded: ReadonlyMap<bigint, ChargeSums> },
  problems: Problems,
): void {
  const found = new Map<bigint, ChargeSums>();
  const charges = new Map<bigint, bigint[]>();
  for (const { id, account, kind, amount } of sqlite
    .query<RowWithoutRequest, []>(ROWS_WITHOUT_REQUEST)
    .iterate()) {
    if (kind === "refund") addTo(found, account, { ...NOTHING, refunded: amount });
    else {
      addTo(found, account, { ...NOTHING, charged: 1n, charge: -amount });
      const ids = charges.get(account) ?? [];
      charges.set(account, ids);
      if (ids.length < PROBLEMS_PER_RULE_MAX) ids.push(id);
    }
  }
  for (const [id, { name }] of ledger) {
    const sums = found.get(id) ?? NOTHING;
    const expected = folded.get(id) ?? NOTHING;
    if (expected.charged === 0n)
      for (const row of charges.get(id) ?? [])
        problems.add(`ledger row ${row}`, "is a charge for no request");
    else if (sums.charged !== expected.charged || sums.charge !== expected.charge)
      problems.add(
        `account ${name}`,
        "charges of its folded requests are not what the totals count",
      );
    if (sums.refunded !== expected.refunded)
      problems.add(`account ${name}`, "refunds are not what the totals count");
  }
}

/** The spending of a rotation chain is stored at its first key. */
function compareWithKeys(sqlite: Database, totals: readonly KeyTotals[], problems: Problems): void {
  const spent = new Map<bigint, bigint>();
  for (const { key, charge, refunded } of totals)
    spent.set(key, (spent.get(key) ?? 0n) + charge - refunded);
  const keys = sqlite
    .query<{ id: bigint; first: bigint; name: string; spent: bigint }, []>(
      "SELECT id, coalesce(first_key_id, id) AS first, public_id AS name, spent FROM keys",
    )
    .all();
  const byChain = new Map<bigint, bigint>();
  for (const { id, first } of keys)
    byChain.set(first, (byChain.get(first) ?? 0n) + (spent.get(id) ?? 0n));
  for (const key of keys) {
    const expected = key.id === key.first ? (byChain.get(key.id) ?? 0n) : 0n;
    if (key.spent !== expected)
      problems.add(`key ${key.name}`, "spent is not the sum of its requests");
  }
}
