import type { AccessPaths, Connection } from "../connection.ts";
import type { AuditSteps, Problems } from "./auditProgress.ts";

interface Account {
  readonly name: string;
  readonly balance: bigint;
  readonly seq: bigint;
}

interface Row {
  readonly account: bigint;
  readonly seq: bigint;
  readonly amount: bigint;
  readonly charge: bigint;
  readonly balanceAfter: bigint;
}

/**
 * A query for all changes of all balances. It reads the rows in the order of the file and sorts them. In the order of
 * an index each row would be at another place of the file. A charge stays positive, because a damaged one may have no
 * negative in 64 bits.
 */
const history = ({ wholeTable }: AccessPaths): string =>
  `SELECT account_id AS account, seq, amount, CAST(0 AS bigint) AS charge, balance_after AS "balanceAfter"
    FROM ${wholeTable("ledger")}
  UNION ALL SELECT account_id, ledger_seq, CAST(0 AS bigint), charge, balance_after
    FROM ${wholeTable("requests")} WHERE ledger_seq IS NOT NULL AND balance_after IS NOT NULL
  ORDER BY 1, 2`;

const ROWS_PER_STEP = 10_000;

/** Before the first row of an account. */
const START = { seq: 0n, balanceAfter: 0n } as const;

/**
 * Reads the history of each account in order: the rows of its ledger together with the charges of its requests. Numbers
 * begin at 1 without gaps, each balance follows from the one before it, and the last one is the account's. So the
 * balance is the sum of all rows.
 */
export async function auditLedger(
  connection: Connection,
  problems: Problems,
  steps: AuditSteps,
): Promise<void> {
  const accounts = await readAccounts(connection);
  let current: { id: bigint; account: Account | undefined } | undefined;
  let last: Pick<Row, "seq" | "balanceAfter"> = START;
  const endAccount = (): void => {
    if (current?.account) compareWithLast(current.account, last, problems);
  };
  let rows = 0;
  await connection.forEach<Row>(history(connection.paths), {}, (row) => {
    rows += 1;
    if (rows % ROWS_PER_STEP === 0) steps.reached(rows);
    if (row.account !== current?.id) {
      endAccount();
      current = { id: row.account, account: accounts.get(row.account) };
      accounts.delete(row.account);
      last = START;
      if (!current.account)
        problems.add(`account row ${row.account}`, "has a ledger, but is not there");
    }
    if (
      row.seq !== last.seq + 1n ||
      row.balanceAfter !== last.balanceAfter + row.amount - row.charge
    )
      problems.add(
        `account ${current.account?.name ?? `row ${row.account}`}, row ${row.seq}`,
        "does not follow from the row before it",
      );
    last = row;
  });
  endAccount();
  for (const account of accounts.values()) compareWithLast(account, START, problems);
}

async function readAccounts(connection: Connection): Promise<Map<bigint, Account>> {
  const rows = await connection.rows<Account & { id: bigint }>(
    "SELECT id, name, balance, ledger_seq AS seq FROM accounts",
  );
  return new Map(rows.map(({ id, ...account }) => [id, account]));
}

function compareWithLast(
  { name, balance, seq }: Account,
  last: Pick<Row, "seq" | "balanceAfter">,
  problems: Problems,
): void {
  if (balance !== last.balanceAfter || seq !== last.seq)
    problems.add(`account ${name}`, "balance is not the sum of its ledger");
}
