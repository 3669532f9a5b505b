import type { Database } from "bun:sqlite";
import { schemaProblems } from "../schema/schemaCheck.ts";
import { StoreError, type Connection } from "../sqlite.ts";
import { auditChecks, type AuditCheck } from "./audit.ts";

/** Rows of the ledger and requests that a start checks, in 3 ms for any size of the database. */
const LAST_ROWS = 500;

const LAST_LEDGER_ROWS = `main.ledger WHERE id > (SELECT max(id) FROM main.ledger) - ${LAST_ROWS}`;
const LAST_UNCHECKED_ID = `(SELECT max(id) FROM main.requests) - ${LAST_ROWS}`;

/**
 * A CTE named `requests` shadows the table, so the audit's queries run unchanged, on these rows only;
 * `main.requests` is the whole table.
 */
const LAST_REQUESTS = `WITH requests AS (
    SELECT * FROM main.requests WHERE id > ${LAST_UNCHECKED_ID} UNION ALL
    SELECT * FROM main.requests WHERE status = 'running' AND status <> 'done' AND id <= ${LAST_UNCHECKED_ID})`;

/** The audit walks the whole ledger in order. These find the same in its last rows by an index. */
const ledgerChecks: readonly AuditCheck[] = [
  {
    problem: "does not follow from the row before it",
    query: `SELECT 'ledger row ' || l.id AS subject FROM (SELECT * FROM ${LAST_LEDGER_ROWS}) l
      LEFT JOIN main.ledger b ON b.account_id = l.account_id AND b.seq = l.seq - 1
      WHERE l.balance_after IS NOT coalesce(b.balance_after, 0) + l.amount
        OR (b.id IS NULL AND l.seq <> 1) OR b.id > l.id`,
  },
  {
    problem: "balance is not that of its last ledger row",
    query: `SELECT 'account ' || a.name AS subject FROM accounts a
      LEFT JOIN main.ledger l ON l.account_id = a.id AND l.seq = a.ledger_seq
      WHERE a.id IN (SELECT account_id FROM ${LAST_LEDGER_ROWS})
        AND (l.balance_after IS NOT a.balance
          OR EXISTS (SELECT 1 FROM main.ledger n WHERE n.account_id = a.id AND n.seq > a.ledger_seq))`,
  },
];

/**
 * Checks before a gateway serves: the schema, the last rows and all running requests, where a crash or a manual change
 * is most likely to show. The audit checks the rest. Throws StoreError with the first problem.
 */
export function checkAtStart({ sqlite }: Connection, path: string): void {
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
