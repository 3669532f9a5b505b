import type { Database } from "bun:sqlite";
import { auditChecks } from "./auditChecks.ts";
import { auditLedger } from "./auditLedger.ts";
import { settingsChecks } from "./auditSettings.ts";
import { auditTotals } from "./auditTotals.ts";
import { AUDIT_CACHE_KILOBYTES, checkIntegrityBeside, fileProblems } from "./integrity.ts";
import { schemaProblems } from "./schemaCheck.ts";
import { collectProblems, PROBLEMS_PER_RULE_MAX } from "./problems.ts";
import type { Connection } from "./sqlite.ts";

/** One line each, which names the row. `notes`: what is no problem, but worth knowing. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
  notes: string[];
}

/** `atRest`: no gateway is running on the store. `booksOnly`: what people said of keys and accounts is not judged. */
interface AuditOptions {
  atRest: boolean;
  booksOnly?: boolean;
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
export async function auditStoreBeside(
  connection: Pick<Connection, "sqlite">,
  path: string,
  options: AuditOptions,
): Promise<AuditReport> {
  const { sqlite } = connection;
  const check = checkIntegrityBeside(path);
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
    const checks = options.booksOnly ? auditChecks : [...auditChecks, ...settingsChecks];
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
