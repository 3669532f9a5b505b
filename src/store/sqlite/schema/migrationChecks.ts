import type { Database } from "bun:sqlite";

/** What a migration relies on, as queries for the rows that break it. Each selects a text column `subject`. */
interface MigrationCheck {
  readonly problem: string;
  readonly query: string;
}

const PROBLEMS_MAX = 100;

/** The checks run before the migration of that name. They repeat rules of the form that it reads. */
const checks: Readonly<Record<string, readonly MigrationCheck[]>> = {
  "0004_one_row_per_charge": [
    {
      problem: "does not agree with its charge in the ledger",
      query: `SELECT 'request ' || r.public_id AS subject FROM requests r
        LEFT JOIN ledger l ON l.ref = 'req:' || r.public_id
        WHERE (r.status = 'done' OR r.charge > 0) <> (l.id IS NOT NULL)
          OR l.account_id <> r.account_id OR l.amount <> -r.charge`,
    },
    {
      problem: "does not follow from the row before it",
      query: `SELECT 'ledger row ' || id AS subject FROM (
          SELECT id, seq, amount, balance_after, lag(seq, 1, 0) OVER before AS last_seq,
            lag(balance_after, 1, 0) OVER before AS last_balance
          FROM ledger WINDOW before AS (PARTITION BY account_id ORDER BY seq))
        WHERE seq <> last_seq + 1 OR balance_after <> last_balance + amount`,
    },
    {
      problem: "balance is not the sum of its ledger",
      query: `SELECT 'account ' || name AS subject FROM accounts LEFT JOIN (
          SELECT account_id, max(seq) AS seq, balance_after FROM ledger GROUP BY account_id) AS last
        ON last.account_id = accounts.id
        WHERE ledger_seq <> coalesce(seq, 0) OR balance <> coalesce(balance_after, 0)`,
    },
    {
      problem: "refunds no charge of its account",
      query: `SELECT 'ledger row ' || f.id AS subject FROM ledger f LEFT JOIN ledger c ON c.id = f.refund_of
        WHERE (f.kind = 'refund' OR f.refund_of IS NOT NULL)
          AND (f.kind <> 'refund' OR c.kind IS NOT 'charge' OR c.account_id <> f.account_id)`,
    },
  ],
};

/** A line for each row that this migration cannot rely on. */
export function problemsBefore(sqlite: Database, tag: string): string[] {
  return (checks[tag] ?? []).flatMap(({ problem, query }) =>
    sqlite
      .query<{ subject: string }, []>(`${query} LIMIT ${PROBLEMS_MAX}`)
      .all()
      .map(({ subject }) => `${subject}: ${problem}`),
  );
}

/** A line for each reference to a row that does not exist. */
export function referenceProblems(sqlite: Database): string[] {
  return sqlite
    .query<{ table: string; rowid: bigint | null; parent: string }, []>(
      `SELECT "table", rowid, parent FROM pragma_foreign_key_check LIMIT ${PROBLEMS_MAX}`,
    )
    .all()
    .map(({ table, rowid, parent }) => `row ${rowid} of ${table}: belongs to no row of ${parent}`);
}
