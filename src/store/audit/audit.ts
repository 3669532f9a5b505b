import type { Database } from "bun:sqlite";
import { auditLedger } from "./auditLedger.ts";
import { auditTotals } from "./auditTotals.ts";
import {
  AUDIT_CACHE_KILOBYTES,
  startIntegrityCheck,
  fileProblems,
  collectProblems,
  PROBLEMS_PER_RULE_MAX,
} from "./integrity.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import type { Connection } from "../sqlite.ts";

/** One line each, which names the row. `notes`: what is no problem, but worth knowing. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
  notes: string[];
}

/** `atRest`: no gateway is running on the store. `moneyOnly`: what people said of keys and accounts is not judged. */
interface AuditOptions {
  atRest: boolean;
  moneyOnly?: boolean;
}

/**
 * Asks every rule of one snapshot of the store, its file's own integrity and its schema first. The rules share no
 * code with what writes: what the triggers and constraints promise is asked again here. Its memory
 * does not grow with the number of requests.
 */
export function auditStore(
  { sqlite }: Pick<Connection, "sqlite">,
  options: AuditOptions,
): AuditReport {
  sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
  return auditWith(sqlite, options, () => fileProblems(sqlite));
}

/**
 * The same in half the time, for another thread checks the file meanwhile. Where that is not in order, all is asked
 * again in its order, for what a rule may take for granted depends on it.
 */
export async function auditStoreInParallel(
  connection: Pick<Connection, "sqlite">,
  path: string,
  options: AuditOptions,
): Promise<AuditReport> {
  const { sqlite } = connection;
  const check = startIntegrityCheck(path);
  try {
    sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
    const report = auditWith(sqlite, options, () => []);
    return (await check.isInOrder) ? report : auditStore(connection, options);
  } finally {
    check.end();
  }
}

function auditWith(
  sqlite: Database,
  options: AuditOptions,
  checkFile: () => readonly string[],
): AuditReport {
  const subjects = (query: string): string[] =>
    sqlite
      .query<{ subject: string }, []>(query)
      .all()
      .map(({ subject }) => subject);
  const size = (table: string): number =>
    Number(sqlite.query<{ rows: bigint }, []>(`SELECT count(*) AS rows FROM ${table}`).get()?.rows);
  return sqlite.transaction((): AuditReport => {
    const problems = collectProblems();
    for (const line of checkFile()) problems.add("database file", line);
    for (const line of schemaProblems(sqlite)) problems.add("schema", line);
    const checks = options.moneyOnly ? auditChecks : [...auditChecks, ...settingsChecks];
    for (const { problem, query } of checks)
      for (const subject of subjects(`${query} LIMIT ${PROBLEMS_PER_RULE_MAX}`))
        problems.add(subject, problem);
    auditTotals(sqlite, auditLedger(sqlite, problems), problems);
    return {
      accounts: size("accounts"),
      requests: size("requests"),
      problems: problems.lines,
      notes: options.atRest ? interrupted(subjects) : [],
    };
  })();
}

/** After a crash, and until the gateway starts again, its open holds stand in the store. Nothing is lost by that. */
function interrupted(subjects: (query: string) => string[]): string[] {
  return subjects(
    `SELECT 'request ' || public_id AS subject FROM requests
    WHERE status = 'running' AND status <> 'done' LIMIT ${PROBLEMS_PER_RULE_MAX}`,
  ).map((subject) => `${subject}: interrupted, its hold is released when the gateway starts`);
}

/** One rule of the books as a question to the whole store. */
export interface AuditCheck {
  /** What is wrong with the rows that the query finds. */
  readonly problem: string;
  /** Selects one text column, `subject`, for each row that breaks the rule. */
  readonly query: string;
  /** A start asks it too, of its last requests: it looks at each one by itself. */
  readonly isOfRequest?: true;
}

/** A sum that may leave 64 bits, as what somebody tampered with could, and is then a REAL: SQLite's own refuses. */
function wideSum(column: string): string {
  return `(sum(${column} / 1000000000) * 1000000000 + sum(${column} % 1000000000))`;
}

/** A request that has to have a row in the ledger. */
const isCharged = `(r.status = 'done' OR (r.status = 'cancelled' AND r.charge > 0))`;

/** Whether a column has no unique index any more: what is in an index, the file's integrity tells. */
function isNotUnique(table: string, column: string): string {
  return `SELECT 'every ${table}.${column}' AS subject WHERE NOT EXISTS (
      SELECT 1 FROM pragma_index_list('${table}') AS i WHERE i."unique" AND NOT i.partial
        AND (SELECT group_concat(name) FROM pragma_index_info(i.name)) = '${column}')`;
}

/** Rules that one row, or a row and its neighbours in other tables, must keep. */
export const auditChecks: readonly AuditCheck[] = [
  {
    problem: "balance is below its overdraft",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE balance + overdraft < 0 OR overdraft < 0`,
  },
  {
    problem: "more is held than the account can pay",
    query: `SELECT 'account ' || a.name AS subject FROM accounts a
      JOIN (SELECT account_id, ${wideSum("hold")} AS held FROM requests
          WHERE status = 'running' AND status <> 'done' GROUP BY account_id) r
        ON r.account_id = a.id
      WHERE a.balance + a.overdraft < r.held`,
  },
  {
    problem: "has no charge in the ledger that fits it",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      LEFT JOIN ledger l ON l.ref = 'req:' || r.public_id
      WHERE ${isCharged}
        AND (l.id IS NULL OR l.kind <> 'charge' OR l.amount <> -r.charge OR l.account_id <> r.account_id)`,
  },
  {
    problem: "has a charge in the ledger though nothing was to be charged",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      JOIN ledger l ON l.ref = 'req:' || r.public_id WHERE NOT ${isCharged}`,
  },
  {
    problem: "charge and write-off are not the price of its tokens",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE hold < 0 OR charge < 0 OR write_off < 0
        OR cached_tokens < 0 OR cache_write_tokens < 0 OR completion_tokens < 0
        OR cached_tokens + cache_write_tokens > prompt_tokens
        OR charge + write_off <> prompt_tokens * price_input
          - cached_tokens * (price_input - price_cached_input)
          - cache_write_tokens * (price_input - price_cache_write)
          + completion_tokens * price_output`,
  },
  {
    problem: "is not what its status may be",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE status <> 'done' AND (status NOT IN ('running', 'failed', 'cancelled', 'interrupted')
        OR (status <> 'cancelled' AND charge + write_off <> 0))`,
  },
  {
    problem: "belongs to another account than its key",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      LEFT JOIN keys k ON k.id = r.key_id WHERE k.account_id IS NOT r.account_id`,
  },
  {
    problem: "attempts are not as many as it counts",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      WHERE r.attempt_count <> (SELECT count(*) FROM attempts WHERE request_id = r.id)`,
  },
  {
    problem: "belongs to no request",
    query: `SELECT 'attempt ' || a.n || ' of request row ' || a.request_id AS subject FROM attempts a
      LEFT JOIN requests r ON r.id = a.request_id WHERE r.id IS NULL`,
  },
  {
    problem: "gives back no charge of its account",
    query: `SELECT 'ledger row ' || f.id AS subject FROM ledger f
      LEFT JOIN ledger c ON c.id = f.refund_of
      WHERE (f.kind = 'refund' OR f.refund_of IS NOT NULL)
        AND (f.kind <> 'refund' OR c.kind IS NOT 'charge' OR c.account_id <> f.account_id)`,
  },
  {
    problem: "more was given back than it charged",
    query: `SELECT 'ledger row ' || c.id AS subject FROM ledger c
      JOIN (SELECT refund_of, ${wideSum("amount")} AS total FROM ledger
          WHERE refund_of IS NOT NULL GROUP BY refund_of) f
        ON f.refund_of = c.id
      WHERE f.total > -c.amount`,
  },
  {
    problem: "its line of rotated keys begins with no first key of the same account",
    query: `SELECT 'key ' || k.public_id AS subject FROM keys k LEFT JOIN keys f ON f.id = k.first_key_id
      WHERE k.first_key_id IS NOT NULL AND (f.account_id IS NOT k.account_id OR f.first_key_id IS NOT NULL)`,
  },
  {
    problem: "has spent less than nothing",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE spent < 0`,
  },
  { problem: "may be there twice", query: isNotUnique("ledger", "ref") },
  { problem: "may be there twice", query: isNotUnique("requests", "public_id") },
  {
    problem: "has not the one row that tells since when requests are kept",
    query: `SELECT 'retention' AS subject WHERE (SELECT count(*) FROM retention) <> 1`,
  },
];

/** The last millisecond of the year 9999: beyond it no command takes a time, and further on none can be shown. */
const TIME_MAX = 253_402_300_799_999;

/** Whether a column, which may be NULL, holds no number from 0 to that. */
function isOutside(column: string, max: number): string {
  return `${column} NOT BETWEEN 0 AND ${max}`;
}

/** JSON is asked for its parts only where it is JSON: else SQLite ends the whole query. */
const isNoModelList = `CASE WHEN models IS NULL THEN 0 WHEN NOT json_valid(models) THEN 1
  ELSE json_type(models) <> 'array' OR json_array_length(models) = 0
    OR EXISTS (SELECT 1 FROM json_each(models) WHERE type <> 'text') END`;

/** What a person said of keys and accounts: no sum depends on it, so that nothing else finds a bit of it that turned over. */
export const settingsChecks: readonly AuditCheck[] = [
  {
    problem: "its list of models is damaged",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE ${isNoModelList}`,
  },
  {
    problem: "has a limit or a budget that nobody can give it",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE budget < 0
      OR ${["requests_per_minute", "tokens_per_minute", "concurrent_requests"].map((limit) => isOutside(limit, Number.MAX_SAFE_INTEGER)).join(" OR ")}`,
  },
  {
    problem: "has a time that is none",
    query: `SELECT 'key ' || public_id AS subject FROM keys
      WHERE ${["created_at", "expires_at", "revoked_at", "last_used_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}
      UNION ALL SELECT 'account ' || name FROM accounts WHERE ${isOutside("created_at", TIME_MAX)}`,
  },
  {
    problem: "is neither enabled nor disabled",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE disabled NOT IN (0, 1)`,
  },
];
