import {
  historyOf,
  placeOf,
  type AccountRow,
  type DatabaseRows,
  type LedgerRow,
} from "./databaseRows.ts";

/** Problems of the accounts and their histories. */
export function ledgerProblems(database: DatabaseRows): string[] {
  const { accounts, changes } = database;
  const history = historyOf(database);
  const rows = Map.groupBy(history, ({ account }) => account);
  const known = new Set(accounts.map(({ id }) => id));
  const strangers = history.filter(({ account }) => !known.has(account));
  return [
    ...strangers.map((row) => `row ${placeOf(row)} is of no account`),
    ...accounts.flatMap((account) => walkProblems(account, rows.get(account.id) ?? [])),
    ...accounts.flatMap(reserveProblems),
    ...refProblems(history),
    ...refundProblems(history),
    ...(changes.length === 1 ? [] : [`there are ${changes.length} counters of changes`]),
  ];
}

/** The balance is what the history adds up to, row by row, without a gap. */
function walkProblems(account: AccountRow, rows: readonly LedgerRow[]): string[] {
  const problems: string[] = [];
  let balance = 0n;
  let seq = 0n;
  for (const row of rows) {
    const what = `row ${row.seq} of ${account.name}`;
    seq += 1n;
    balance += row.amount;
    if (row.seq !== seq) problems.push(`${what} comes where ${seq} is next`);
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

/** What is reserved can be paid, and no debt exceeds the overdraft. */
function reserveProblems({ name, balance, overdraft, reserved }: AccountRow): string[] {
  const isKept = overdraft >= 0n && reserved >= 0n && balance + overdraft >= reserved;
  return isKept
    ? []
    : [`${name} has ${balance} and ${overdraft} beyond it, and ${reserved} are reserved`];
}

/** No request is charged twice, and no credit is made twice. */
function refProblems(history: readonly LedgerRow[]): string[] {
  const seen = new Set<string>();
  return history.flatMap((row) => {
    const { ref } = row;
    if (ref === null) return [];
    if (seen.has(ref)) return [`row ${placeOf(row)} has the ref ${ref} once more`];
    seen.add(ref);
    return [];
  });
}

/** Refunds return charges of their own account, and never more than was charged. */
function refundProblems(history: readonly LedgerRow[]): string[] {
  const charges = new Map(
    history.filter(({ kind }) => kind === "charge").map((row) => [placeOf(row), row.amount]),
  );
  const given = new Map<string, bigint>();
  const problems: string[] = [];
  for (const row of history) {
    const { kind, account, amount, refundOf } = row;
    if (kind !== "refund" && refundOf === null) continue;
    const place = placeOf({ account, seq: refundOf });
    const charge = charges.get(place);
    if (kind !== "refund" || charge === undefined) {
      problems.push(`row ${placeOf(row)} gives back what is no charge of its account`);
      continue;
    }
    const total = (given.get(place) ?? 0n) + amount;
    given.set(place, total);
    if (total > -charge)
      problems.push(`row ${placeOf(row)} makes ${total} that are given back of ${-charge}`);
  }
  return problems;
}
