import type { AccountRow, DatabaseRows, LedgerRow, RequestRow } from "./databaseRows.ts";

/** Problems of the accounts and their ledgers. */
export function ledgerProblems({ accounts, ledger, requests }: DatabaseRows): string[] {
  const rows = Map.groupBy(ledger, ({ account }) => account);
  const open = Map.groupBy(
    requests.filter(({ status }) => status === "running"),
    ({ account }) => account,
  );
  const known = new Set(accounts.map(({ id }) => id));
  const strangers = ledger.filter(({ account }) => !known.has(account));
  return [
    ...strangers.map(({ id }) => `ledger row ${id} is of no account`),
    ...accounts.flatMap((account) => [
      ...walkProblems(account, rows.get(account.id) ?? []),
      ...promiseProblems(account, open.get(account.id) ?? []),
    ]),
    ...refProblems(ledger),
    ...refundProblems(ledger),
  ];
}

/** The balance is what the ledger adds up to, row by row, without a gap. */
function walkProblems(account: AccountRow, rows: readonly LedgerRow[]): string[] {
  const problems: string[] = [];
  let balance = 0n;
  let seq = 0n;
  for (const row of rows) {
    const what = `ledger row ${row.id} of ${account.name}`;
    seq += 1n;
    balance += row.amount;
    if (row.seq !== seq) problems.push(`${what} has seq ${row.seq}, and ${seq} comes next`);
    if (row.balanceAfter !== balance)
      problems.push(`${what} leaves ${row.balanceAfter}, and the sum so far is ${balance}`);
    if (!isOfItsKind(row))
      problems.push(`${what} is a ${row.kind} of ${row.amount}, ref ${row.ref}`);
    // Continue from the found balance, so that one error is reported once.
    balance = row.balanceAfter;
    seq = row.seq;
  }
  const sum = rows.reduce((total, { amount }) => total + amount, 0n);
  if (account.balance !== sum || account.seq !== BigInt(rows.length))
    problems.push(
      `${account.name} has ${account.balance} after ${account.seq} rows, and its ${rows.length} rows sum to ${sum}`,
    );
  return problems;
}

function isOfItsKind({ kind, amount, ref }: LedgerRow): boolean {
  const namesRequest = ref !== null && ref.startsWith("req:");
  if (namesRequest !== (kind === "charge")) return false;
  if (kind === "charge" || kind === "debit") return amount <= 0n;
  return ["credit", "refund"].includes(kind) && amount > 0n;
}

/** Holds can be paid, and no debt exceeds the overdraft. */
function promiseProblems(
  { name, balance, overdraft }: AccountRow,
  open: readonly RequestRow[],
): string[] {
  const held = open.reduce((total, { hold }) => total + hold, 0n);
  const isKept = overdraft >= 0n && balance + overdraft - held >= 0n;
  return isKept ? [] : [`${name} has ${balance} and ${overdraft} beyond it, and ${held} are held`];
}

function refProblems(ledger: readonly LedgerRow[]): string[] {
  const seen = new Set<string>();
  return ledger.flatMap(({ id, ref }) => {
    if (ref === null) return [];
    if (seen.has(ref)) return [`ledger row ${id} bears the ref ${ref} once more`];
    seen.add(ref);
    return [];
  });
}

/** Refunds return charges of their own account, and never more than was charged. */
function refundProblems(ledger: readonly LedgerRow[]): string[] {
  const byId = new Map(ledger.map((row) => [row.id, row]));
  const given = new Map<bigint, bigint>();
  const problems: string[] = [];
  for (const { id, kind, account, amount, refundOf } of ledger) {
    if (kind !== "refund" && refundOf === null) continue;
    const charge = refundOf === null ? undefined : byId.get(refundOf);
    if (kind !== "refund" || charge?.kind !== "charge" || charge.account !== account) {
      problems.push(`ledger row ${id} gives back what is no charge of its account`);
      continue;
    }
    const total = (given.get(charge.id) ?? 0n) + amount;
    given.set(charge.id, total);
    if (total > -charge.amount)
      problems.push(`ledger row ${id} makes ${total} that are given back of ${-charge.amount}`);
  }
  return problems;
}
