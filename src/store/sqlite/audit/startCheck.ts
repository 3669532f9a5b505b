import type { Database } from "bun:sqlite";
import { schemaProblems } from "../schema/schemaCheck.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { auditChecks, type AuditCheck } from "../../audit/audit.ts";

/** Rows of the ledger and requests that a start checks, in 3 ms for any size of the database. */
const LAST_ROWS = 500;

const LAST_UNCHECKED_ID = `(SELECT max(id) FROM main.requests) - ${LAST_ROWS}`;

/**
 * A CTE named `requests` shadows the table, so the audit's queries run unchanged, on these rows only;
 * `main.requests` is the whole table.
 */
const LAST_REQUESTS = `WITH requests AS (
    SELECT * FROM main.requests WHERE id > ${LAST_UNCHECKED_ID} UNION ALL
    SELECT * FROM main.requests WHERE status = 'running' AND status <> 'done' AND id <= ${LAST_UNCHECKED_ID})`;

/** The last changes of balances. */
const LAST_CHANGES = `${LAST_REQUESTS}, last AS (
    SELECT account_id, seq, amount, balance_after FROM main.ledger
      WHERE id > (SELECT max(id) FROM main.ledger) - ${LAST_ROWS}
    UNION ALL SELECT account_id, ledger_seq, -charge, balance_after FROM requests WHERE ledger_seq IS NOT NULL)`;

/** The rows of both tables at a place. */
function rowsAt(place: string): string {
  return `(SELECT balance_after FROM main.ledger WHERE account_id = a.id AND seq ${place}
    UNION ALL SELECT balance_after FROM main.requests WHERE account_id = a.id AND ledger_seq ${place})`;
}

/**
 * The audit walks the whole history in order. These find the same in the last rows by an index. The sign before `account_id`
 * keeps SQLite from reading the accounts of all requests in the order of `requests_account`.
 */
const ledgerChecks: readonly AuditCheck[] = [
  {
    problem: "does not follow from the row before it",
    query: `${LAST_CHANGES} SELECT 'account ' || a.name || ', row ' || l.seq AS subject
      FROM last l CROSS JOIN accounts a ON a.id = l.account_id
      WHERE l.balance_after IS NOT l.amount + CASE l.seq WHEN 1 THEN 0 ELSE ${rowsAt("= l.seq - 1")} END
        OR (SELECT count(*) FROM ${rowsAt("= l.seq")}) <> 1`,
  },
  {
    problem: "balance is not that of its last row",
    query: `${LAST_CHANGES} SELECT 'account ' || a.name AS subject FROM accounts a
      WHERE a.id IN (SELECT account_id FROM last UNION SELECT +account_id FROM requests)
        AND (a.balance IS NOT CASE a.ledger_seq WHEN 0 THEN 0 ELSE ${rowsAt("= a.ledger_seq")} END
          OR EXISTS ${rowsAt("> a.ledger_seq")})`,
  },
];

/**
 * Checks before a gateway serves: the schema, the last rows and all running requests, where a crash or a manual change
 * is most likely to show. The audit checks the rest. Throws StoreError with the first problem.
 */
export function checkAtStart({ sqlite }: SqliteConnection, path: string): void {
  refuseProblem(schemaProblems(sqlite)[0], `the schema of the database is not tollgate's: ${path}`);
  const problem = sqlite.transaction(() => firstProblem(sqlite))();
  refuseProblem(problem, `the records in the database do not agree: ${path}`);
}

function firstProblem(sqlite: Database): string | undefined {
  const requestChecks = auditChecks
    .filter(({ isOfRequest }) => isOfRequest)
    .map(({ problem, query }) => ({ problem, query: `${LAST_REQUESTS} ${query}` }));
  for (const { problem, query } of [...ledgerChecks, ...requestChecks]) {
    const found = sqlite.query<{ subject: string }, []>(`${query} LIMIT 1`).get();
    if (found) return `${found.subject}: ${problem}`;
  }
  return undefined;
}

function refuseProblem(problem: string | undefined, verdict: string): void {
  if (problem === undefined) return;
  throw new StoreError(
    `${verdict} (${problem}); \`tollgate audit\` shows all problems, \`tollgate restore FILE\` puts a backup in its place`,
  );
}
