import type { Database } from "bun:sqlite";
import { type Problems, PROBLEMS_PER_RULE_MAX } from "./integrity.ts";
import { joinSum, splitSum } from "../tables/usage.ts";

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

/** What the totals of an account count beyond the requests that are there. */
export interface Folded {
  charged: bigint;
  charge: bigint;
  refunded: bigint;
}

interface Spent extends Folded {
  account: bigint;
  key: bigint;
}

const SPENT = `SELECT key_id AS key, account_id AS account, sum(charged) AS charged,
    ${splitSum("charge", "charge")}, ${splitSum("refunded", "refunded")}
  FROM daily_totals GROUP BY 1, 2`;
const WITHOUT_REQUEST = `SELECT l.id, l.account_id AS account, l.kind, l.amount FROM ledger l
  LEFT JOIN ledger c ON c.id = l.refund_of
  WHERE l.kind IN ('charge', 'refund')
    AND NOT EXISTS (SELECT 1 FROM requests WHERE public_id = substr(coalesce(c.ref, l.ref), 5))`;
interface Orphan {
  id: bigint;
  account: bigint;
  kind: "charge" | "refund";
  amount: bigint;
}

const NOTHING: Readonly<Folded> = { charged: 0n, charge: 0n, refunded: 0n };

/**
 * Compares what the totals count of each account and key with its ledger and with what the key is said
 * to have spent. To be called last: it searches only where something was found before.
 */
export function auditSpent(
  sqlite: Database,
  ledger: ReadonlyMap<bigint, LedgerSums>,
  folded: ReadonlyMap<bigint, Folded>,
  problems: Problems,
): void {
  const totals = sqlite
    .query<Spent & { chargeRest: bigint; refundedRest: bigint }, []>(SPENT)
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
 * A charge whose request is not there must be of one that was folded. Every charged request has a charge
 * of its own, and the totals count it, or a rule before this one has found a problem. If they also count
 * as many charges as the ledger has, all others are of folded requests, and none needs to be looked up.
 */
function compareWithLedger(
  sqlite: Database,
  fundsReader: {
    ledger: ReadonlyMap<bigint, LedgerSums>;
    totals: readonly Spent[];
    folded: ReadonlyMap<bigint, Folded>;
  },
  problems: Problems,
): void {
  const counted = new Map<bigint, Folded>();
  for (const total of fundsReader.totals) addTo(counted, total.account, total);
  const isSame = (account: bigint, sums: LedgerSums): boolean =>
    areEqual(sums, counted.get(account) ?? NOTHING);
  const differing = [...fundsReader.ledger].filter(([account, sums]) => !isSame(account, sums));
  if (problems.lines.length === 0 && differing.length === 0) return;
  const found = problems.lines.length;
  nameOrphans(sqlite, fundsReader, problems);
  if (problems.lines.length > found) return;
  for (const [, { name }] of differing)
    problems.add(`account ${name}`, "charges and refunds are not what the totals count");
}

/** Adds to the sums of an account. */
export function addTo(
  accounts: Map<bigint, Folded>,
  account: bigint,
  { charged, charge, refunded }: Readonly<Folded>,
): void {
  const sums = accounts.get(account) ?? { ...NOTHING };
  accounts.set(account, sums);
  sums.charged += charged;
  sums.charge += charge;
  sums.refunded += refunded;
}

function areEqual(a: Readonly<Folded>, b: Readonly<Folded>): boolean {
  return a.charged === b.charged && a.charge === b.charge && a.refunded === b.refunded;
}

/** Looks up the request of every charge and refund, and compares those that have none with what was folded. */
function nameOrphans(
  sqlite: Database,
  {
    ledger,
    folded,
  }: { ledger: ReadonlyMap<bigint, LedgerSums>; folded: ReadonlyMap<bigint, Folded> },
  problems: Problems,
): void {
  const left = new Map<bigint, Folded>();
  const charges = new Map<bigint, bigint[]>();
  for (const { id, account, kind, amount } of sqlite.query<Orphan, []>(WITHOUT_REQUEST).iterate()) {
    if (kind === "refund") addTo(left, account, { ...NOTHING, refunded: amount });
    else {
      addTo(left, account, { ...NOTHING, charged: 1n, charge: -amount });
      const ids = charges.get(account) ?? [];
      charges.set(account, ids);
      if (ids.length < PROBLEMS_PER_RULE_MAX) ids.push(id);
    }
  }
  for (const [id, { name }] of ledger) {
    const sums = left.get(id) ?? NOTHING;
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

/** What the keys of a line spent stands at its first key. */
function compareWithKeys(sqlite: Database, totals: readonly Spent[], problems: Problems): void {
  const spent = new Map<bigint, bigint>();
  for (const { key, charge, refunded } of totals)
    spent.set(key, (spent.get(key) ?? 0n) + charge - refunded);
  const keys = sqlite
    .query<{ id: bigint; first: bigint; name: string; spent: bigint }, []>(
      "SELECT id, coalesce(first_key_id, id) AS first, public_id AS name, spent FROM keys",
    )
    .all();
  const byLine = new Map<bigint, bigint>();
  for (const { id, first } of keys)
    byLine.set(first, (byLine.get(first) ?? 0n) + (spent.get(id) ?? 0n));
  for (const key of keys) {
    const right = key.id === key.first ? (byLine.get(key.id) ?? 0n) : 0n;
    if (key.spent !== right)
      problems.add(`key ${key.name}`, "spent is not the sum of its requests");
  }
}
