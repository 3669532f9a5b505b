import type { Database } from "bun:sqlite";
import { auditLedger } from "./auditLedger.ts";
import { auditSteps, noSteps, type OnAuditProgress } from "./auditProgress.ts";
import { auditTotals } from "./auditTotals.ts";
import { voucherChecks } from "./auditVouchers.ts";
import {
  AUDIT_CACHE_KILOBYTES,
  startIntegrityCheck,
  fileProblems,
  collectProblems,
  PROBLEMS_PER_RULE_MAX,
} from "../sqlite/audit/integrity.ts";
import { schemaProblems } from "../sqlite/schema/schemaCheck.ts";
import type { Connection } from "../sqlite/sqlite.ts";

/** One line for each problem, with the row. `notes` are not problems. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
  notes: string[];
}

/**
 * `atRest`: no gateway is running. `moneyOnly`: skips the settings of keys and accounts. `isFileChecked`: the caller checks
 * the file.
 */
export interface AuditOptions {
  atRest: boolean;
  moneyOnly?: boolean;
  isFileChecked?: boolean;
}

/**
 * Checks the file, the schema and all rules in one snapshot. The rules share no code with the writer, and repeat what
 * triggers and constraints enforce. The memory does not grow with the number of requests.
 */
export function auditStore(
  { sqlite }: Pick<Connection, "sqlite">,
  options: AuditOptions,
  onProgress?: OnAuditProgress,
): AuditReport {
  sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
  return runAudit(sqlite, options, onProgress);
}

/** The problems of schema and records only: of a migration before its commit. */
export function auditRecords({ sqlite }: Pick<Connection, "sqlite">): string[] {
  return runAudit(sqlite, { atRest: false, moneyOnly: true, isFileChecked: true }).problems;
}

/**
 * The same audit in half the time: a Worker checks the file at the same time. If the file is damaged, the whole audit
 * runs again in order, because the rules rely on indexes.
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
    const report = runAudit(sqlite, { ...options, isFileChecked: true });
    return (await check.isIntact) ? report : auditStore(connection, options);
  } finally {
    check.end();
  }
}

function runAudit(
  sqlite: Database,
  options: AuditOptions,
  onProgress?: OnAuditProgress,
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
    const checks = options.moneyOnly ? auditChecks : [...auditChecks, ...settingsChecks];
    const sizes = {
      accounts: size("accounts"),
      requests: size("requests"),
      ledger: size("ledger"),
    };
    const history = sizes.requests + sizes.ledger;
    const rowsOf = ({ query }: AuditCheck): number =>
      query.includes("FROM requests") ? sizes.requests : sizes.ledger;
    const total = checks.reduce((sum, check) => sum + rowsOf(check), 2 * history + sizes.requests);
    const steps = onProgress ? auditSteps(total, onProgress) : noSteps;
    steps.begin("file", history);
    if (!options.isFileChecked)
      for (const line of fileProblems(sqlite)) problems.add("database file", line);
    for (const line of schemaProblems(sqlite)) problems.add("schema", line);
    for (const check of checks) {
      steps.begin("rules", rowsOf(check));
      for (const subject of subjects(`${check.query} LIMIT ${PROBLEMS_PER_RULE_MAX}`))
        problems.add(subject, check.problem);
    }
    steps.begin("histories", history);
    auditLedger(sqlite, problems, steps);
    steps.begin("totals", sizes.requests);
    auditTotals(sqlite, problems, steps);
    return {
      accounts: sizes.accounts,
      requests: sizes.requests,
      problems: problems.lines,
      notes: options.atRest
        ? crashNotes.flatMap(({ problem, query }) =>
            subjects(`${query} LIMIT ${PROBLEMS_PER_RULE_MAX}`).map(
              (subject) => `${subject}: ${problem}`,
            ),
          )
        : [],
    };
  })();
}

/** One rule, as a query for the rows that break it. */
export interface AuditCheck {
  readonly problem: string;
  /** Selects a text column `subject` for each row that breaks the rule. */
  readonly query: string;
  /** True if it checks each request by itself. A start runs it for the last requests. */
  readonly isOfRequest?: true;
}

/** What a crash leaves. The next start ends it, so it is no problem. */
const crashNotes: readonly AuditCheck[] = [
  {
    problem: "is set to interrupted when the gateway starts",
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE status = 'running' AND status <> 'done'`,
  },
  {
    problem: "its reserve is released when the gateway starts",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE reserved > 0`,
  },
];

/** A sum that becomes a REAL above 64 bits, which a manual change can cause. SQLite's `sum` fails there. */
function sumWithoutFailure(column: string): string {
  return `(sum(${column} / 1000000000) * 1000000000 + sum(${column} % 1000000000))`;
}

/** The charge that the row `f` of the ledger refunds, of a request that is there or was folded; NULL: none. */
const CHARGE_OF_REFUND = `coalesce(
        (SELECT charge FROM requests WHERE account_id = f.account_id AND ledger_seq = f.refund_of),
        (SELECT -amount FROM ledger WHERE account_id = f.account_id AND seq = f.refund_of AND kind = 'charge'))`;

/** Finds a column without a unique index. The check of the file proves the content of indexes. */
function isNotUnique(table: string, column: string): string {
  return `SELECT 'every ${table}.${column}' AS subject WHERE NOT EXISTS (
      SELECT 1 FROM pragma_index_list('${table}') AS i WHERE i."unique" AND NOT i.partial
        AND (SELECT group_concat(name) FROM pragma_index_info(i.name)) = '${column}')`;
}

/** Rules about one row, and its related rows in other tables. */
export const auditChecks: readonly AuditCheck[] = [
  {
    problem: "balance is below its overdraft",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE balance + overdraft < 0 OR overdraft < 0`,
  },
  {
    problem: "has a reserve below zero, or above what it can pay",
    query: `SELECT 'account ' || name AS subject FROM accounts
      WHERE reserved < 0 OR reserved > balance + overdraft`,
  },
  {
    problem: "has a charge without a place in the ledger, or a place without a charge",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE (ledger_seq IS NOT NULL) <> (status = 'done' OR (status = 'cancelled' AND charge > 0))
        OR (balance_after IS NOT NULL) <> (ledger_seq IS NOT NULL)`,
  },
  {
    problem: "was folded, but is there",
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      WHERE EXISTS (SELECT 1 FROM ledger WHERE ref = 'req:' || r.public_id)`,
  },
  {
    problem: "charge and write-off are not the price of its usage",
    isOfRequest: true,
    query: `SELECT 'request ' || public_id AS subject FROM requests
      WHERE hold < 0 OR charge < 0 OR write_off < 0
        OR cached_tokens < 0 OR cache_write_tokens < 0 OR completion_tokens < 0 OR web_searches < 0
        OR cached_tokens + cache_write_tokens > prompt_tokens
        OR cache_write_1h_tokens < 0 OR cache_write_1h_tokens > cache_write_tokens
        OR charge + write_off <> prompt_tokens * price_input
          - cached_tokens * (price_input - price_cached_input)
          - cache_write_tokens * (price_input - price_cache_write)
          + cache_write_1h_tokens * (price_cache_write_1h - price_cache_write)
          + completion_tokens * price_output + web_searches * price_web_search`,
  },
  {
    problem: "has an unknown status, or a charge that its status excludes",
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
    problem: "does not have as many attempts as it counts",
    isOfRequest: true,
    query: `SELECT 'request ' || r.public_id AS subject FROM requests r
      WHERE NOT (SELECT count(*) = r.attempt_count OR (count(*) = 0 AND r.attempt_count = 1)
        FROM attempts WHERE request_id = r.id)`,
  },
  {
    problem: "belongs to no request",
    query: `SELECT 'attempt ' || a.n || ' of request row ' || a.request_id AS subject FROM attempts a
      LEFT JOIN requests r ON r.id = a.request_id WHERE r.id IS NULL`,
  },
  {
    problem: "refunds no charge of its account",
    query: `SELECT 'ledger row ' || f.id AS subject FROM ledger f
      WHERE (f.kind = 'refund' OR f.refund_of IS NOT NULL)
        AND (f.kind <> 'refund' OR ${CHARGE_OF_REFUND} IS NULL)`,
  },
  {
    problem: "more was refunded than it charged",
    query: `SELECT 'account ' || a.name || ', row ' || f.refund_of AS subject
      FROM (SELECT account_id, refund_of, ${sumWithoutFailure("amount")} AS total FROM ledger
          WHERE refund_of IS NOT NULL GROUP BY account_id, refund_of) f
      JOIN accounts a ON a.id = f.account_id
      WHERE f.total > ${CHARGE_OF_REFUND}`,
  },
  {
    problem: "has an amount or a ref that its kind excludes",
    query: `SELECT 'ledger row ' || id AS subject FROM ledger
      WHERE kind NOT IN ('credit', 'debit', 'charge', 'refund')
        OR (kind IN ('debit', 'charge')) <> (amount <= 0)
        OR (kind = 'charge') <> (coalesce(ref, '') GLOB 'req:*')`,
  },
  {
    problem: "its rotation chain does not begin with a first key of the same account",
    query: `SELECT 'key ' || k.public_id AS subject FROM keys k LEFT JOIN keys f ON f.id = k.first_key_id
      WHERE k.first_key_id IS NOT NULL AND (f.account_id IS NOT k.account_id OR f.first_key_id IS NOT NULL)`,
  },
  {
    problem: "has spent less than nothing",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE spent < 0`,
  },
  { problem: "is not unique", query: isNotUnique("ledger", "ref") },
  { problem: "is not unique", query: isNotUnique("requests", "public_id") },
  { problem: "is not unique", query: isNotUnique("vouchers", "public_id") },
  { problem: "is not unique", query: isNotUnique("vouchers", "hash") },
  ...voucherChecks,
  {
    problem: "does not have exactly one row",
    query: `SELECT 'retention' AS subject WHERE (SELECT count(*) FROM retention) <> 1
      UNION ALL SELECT 'changes' WHERE (SELECT count(*) FROM changes) <> 1
      UNION ALL SELECT 'voucher_start' WHERE (SELECT count(*) FROM voucher_start) <> 1`,
  },
];

/** The last millisecond of the year 9999, the latest time that commands accept and print. */
const TIME_MAX = 253_402_300_799_999;

/** NULL is allowed. */
function isOutside(column: string, max: number): string {
  return `${column} NOT BETWEEN 0 AND ${max}`;
}

/** A JSON function fails the whole query if the text is not JSON, so `json_valid` comes first. */
const isNoModelList = `CASE WHEN models IS NULL THEN 0 WHEN NOT json_valid(models) THEN 1
  ELSE json_type(models) <> 'array' OR json_array_length(models) = 0
    OR EXISTS (SELECT 1 FROM json_each(models) WHERE type <> 'text') END`;

/** Settings of keys and accounts. No sum depends on them, so no other rule finds a damaged one. */
export const settingsChecks: readonly AuditCheck[] = [
  {
    problem: "its list of models is damaged",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE ${isNoModelList}`,
  },
  {
    problem: "has a limit or a budget out of range",
    query: `SELECT 'key ' || public_id AS subject FROM keys WHERE budget < 0
      OR ${["requests_per_minute", "tokens_per_minute", "concurrent_requests"].map((limit) => isOutside(limit, Number.MAX_SAFE_INTEGER)).join(" OR ")}`,
  },
  {
    problem: "has a time out of range",
    query: `SELECT 'key ' || public_id AS subject FROM keys
      WHERE ${["created_at", "expires_at", "revoked_at", "last_used_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}
      UNION ALL SELECT 'account ' || name FROM accounts WHERE ${isOutside("created_at", TIME_MAX)}
      UNION ALL SELECT 'voucher ' || public_id FROM vouchers
        WHERE ${["created_at", "expires_at", "revoked_at", "redeemed_at"].map((time) => isOutside(time, TIME_MAX)).join(" OR ")}`,
  },
  {
    problem: "is neither enabled nor disabled",
    query: `SELECT 'account ' || name AS subject FROM accounts WHERE disabled NOT IN (0, 1)`,
  },
];
