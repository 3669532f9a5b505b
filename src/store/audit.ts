import type { Connection } from "./sqlite.ts";

/** `problems`: one line each, which names the row. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
}

interface Check {
  /** What is wrong with the rows that the query finds. */
  problem: string;
  /** Selects one text column, `subject`, for each row that breaks the rule. */
  query: string;
}

/** A damaged store may break a rule in every row; the first ones tell enough. */
const PROBLEMS_PER_CHECK_MAX = 20;

/**
 * The rules of the books, each as a question to the whole store. They share no code with what
 * writes: what the triggers and constraints promise is asked again here.
 */
const checks: readonly Check[] = [
  {
    problem: "balance is not the sum of its ledger",
    query: `SELECT 'account ' || a.name AS subject FROM accounts a
      LEFT JOIN (SELECT account_id, sum(amount) AS total, count(*) AS entries, max(seq) AS top FROM ledger GROUP BY account_id) l
        ON l.account_id = a.id
      WHERE a.balance <> coalesce(l.total, 0) OR a.ledger_seq <> coalesce(l.entries, 0) OR a.ledger_seq <> coalesce(l.top, 0)`,
  },
  {
    problem: "does not follow from the row before it",
    query: `SELECT 'ledger row ' || id AS subject FROM (
        SELECT id, seq, amount, balance_after,
          lag(seq, 1, 0) OVER w AS seq_before, lag(balance_after, 1, 0) OVER w AS balance_before
        FROM ledger WINDOW w AS (PARTITION BY account_id ORDER BY seq))
      WHERE seq <> seq_before + 1 OR balance_after <> balance_before + amount`,
  },
  {
    problem: "balance is below its overdraft",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE balance + overdraft < 0`,
  },
  {
    problem: "more is held than the account can pay",
    query: `SELECT 'account ' || a.name AS subject FROM accounts a
      JOIN (SELECT account_id, sum(hold) AS held FROM requests WHERE status = 'running' GROUP BY account_id) r
        ON r.account_id = a.id
      WHERE a.balance + a.overdraft < r.held`,
  },
  {
    problem: "has no charge in the ledger that fits it",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      LEFT JOIN ledger l ON l.ref = 'req:' || r.public_id
      WHERE (r.status = 'done' OR (r.status = 'cancelled' AND r.charge > 0))
        AND (l.id IS NULL OR l.kind <> 'charge' OR l.amount <> -r.charge OR l.account_id <> r.account_id)`,
  },
  {
    problem: "has a charge in the ledger though nothing was to be charged",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      JOIN ledger l ON l.ref = 'req:' || r.public_id
      WHERE NOT (r.status = 'done' OR (r.status = 'cancelled' AND r.charge > 0))`,
  },
  {
    problem: "is a charge for no request",
    query: `SELECT 'ledger row ' || l.id AS subject FROM ledger l
      LEFT JOIN requests r ON r.public_id = substr(l.ref, 5) AND l.ref GLOB 'req:*'
      WHERE l.kind = 'charge' AND r.id IS NULL`,
  },
  {
    problem: "charge and write-off are not the price of its tokens",
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE charge < 0 OR write_off < 0 OR cached_tokens + cache_write_tokens > prompt_tokens
        OR charge + write_off <> prompt_tokens * price_input
          - cached_tokens * (price_input - price_cached_input)
          - cache_write_tokens * (price_input - price_cache_write)
          + completion_tokens * price_output`,
  },
  {
    problem: "spent is not the sum of its requests",
    query: `SELECT 'key ' || k.public_id AS subject FROM keys k
      LEFT JOIN (SELECT key_id, sum(charge) AS total FROM requests GROUP BY key_id) r ON r.key_id = k.id
      WHERE k.spent <> coalesce(r.total, 0)`,
  },
  {
    problem: "attempts are not as many as it counts",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      LEFT JOIN (SELECT request_id, count(*) AS total FROM attempts GROUP BY request_id) a ON a.request_id = r.id
      WHERE r.attempt_count <> coalesce(a.total, 0)`,
  },
  {
    problem: "belongs to no request",
    query: `SELECT 'attempt ' || a.n || ' of request row ' || a.request_id AS subject FROM attempts a
      LEFT JOIN requests r ON r.id = a.request_id WHERE r.id IS NULL`,
  },
  {
    problem: "belongs to another account than its key",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      JOIN keys k ON k.id = r.key_id WHERE k.account_id <> r.account_id`,
  },
];

/**
 * Asks every rule of one snapshot of the store, its file's own integrity first. `atRest` adds that
 * nothing may be held: true when no gateway is running on it.
 */
export function auditStore({ sqlite }: Connection, options: { atRest: boolean }): AuditReport {
  const rows = (query: string): string[] =>
    sqlite
      .query<{ subject: string }, []>(query)
      .all()
      .map(({ subject }) => subject);
  const size = (table: string): number =>
    Number(rows(`SELECT CAST(count(*) AS TEXT) AS subject FROM ${table}`)[0]);
  return sqlite.transaction((): AuditReport => {
    const problems = rows("SELECT integrity_check AS subject FROM pragma_integrity_check")
      .filter((line) => line !== "ok")
      .map((line) => `database file: ${line.replaceAll("\n", ": ")}`);
    for (const { problem, query } of checks) {
      const found = rows(`${query} LIMIT ${PROBLEMS_PER_CHECK_MAX}`);
      problems.push(...found.map((subject) => `${subject}: ${problem}`));
    }
    if (options.atRest) {
      const open = rows(
        `SELECT 'request ' || public_id AS subject FROM requests WHERE status = 'running' LIMIT ${PROBLEMS_PER_CHECK_MAX}`,
      );
      problems.push(
        ...open.map((subject) => `${subject}: still held though no gateway is running`),
      );
    }
    return { accounts: size("accounts"), requests: size("requests"), problems };
  })();
}
