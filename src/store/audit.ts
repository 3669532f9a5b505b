import type { Database } from "bun:sqlite";
import { auditChecks } from "./auditChecks.ts";
import { auditLedger } from "./auditLedger.ts";
import { auditTotals } from "./auditTotals.ts";
import { collectProblems, PROBLEMS_PER_RULE_MAX } from "./problems.ts";
import type { Connection } from "./sqlite.ts";

/** One line each, which names the row. `notes`: what is no problem, but worth knowing. */
export interface AuditReport {
  accounts: number;
  requests: number;
  problems: string[];
  notes: string[];
}

/** An audit reads everything once: with more of it at hand it is a quarter faster. */
const CACHE_KILOBYTES = 64 * 1024;

/**
 * Asks every rule of one snapshot of the store, its file's own integrity first. The rules share no
 * code with what writes: what the triggers and constraints promise is asked again here. Its memory
 * does not grow with the number of requests. `atRest`: no gateway is running on the store.
 */
export function auditStore({ sqlite }: Connection, options: { atRest: boolean }): AuditReport {
  sqlite.run(`PRAGMA cache_size = -${CACHE_KILOBYTES}`);
  const subjects = (query: string): string[] =>
    sqlite
      .query<{ subject: string }, []>(query)
      .all()
      .map(({ subject }) => subject);
  const size = (table: string): number =>
    Number(subjects(`SELECT CAST(count(*) AS TEXT) AS subject FROM ${table}`)[0]);
  return sqlite.transaction((): AuditReport => {
    const problems = collectProblems();
    for (const line of fileIntegrity(sqlite))
      if (line !== "ok") problems.add("database file", line.replaceAll("\n", ": "));
    for (const { problem, query } of auditChecks)
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

/** SQLite's report. CHECK constraints are left out, a third of its time: the rules ask them, and name the row. */
function fileIntegrity(sqlite: Database): string[] {
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  try {
    return sqlite
      .query<{ line: string }, []>("SELECT integrity_check AS line FROM pragma_integrity_check")
      .all()
      .map(({ line }) => line);
  } finally {
    sqlite.run("PRAGMA ignore_check_constraints = OFF");
  }
}

/** After a crash, and until the gateway starts again, its open holds stand in the store. Nothing is lost by that. */
function interrupted(subjects: (query: string) => string[]): string[] {
  return subjects(
    `SELECT 'request ' || public_id AS subject FROM requests
    WHERE status = 'running' AND status <> 'done' LIMIT ${PROBLEMS_PER_RULE_MAX}`,
  ).map((subject) => `${subject}: interrupted, its hold is released when the gateway starts`);
}
