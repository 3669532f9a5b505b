import type { Database } from "bun:sqlite";
import {
  audit,
  crashNotes,
  type AuditOptions,
  type AuditReport,
  type EngineChecks,
} from "../../audit/audit.ts";
import type { OnAuditProgress } from "../../audit/auditProgress.ts";
import { doNow, runSync } from "../../steps.ts";
import { SqliteQueries } from "../queries.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { AUDIT_CACHE_KILOBYTES, fileProblems, startIntegrityCheck } from "./integrity.ts";

/** `isFileChecked`: the caller checks the file. */
export interface SqliteAuditOptions extends AuditOptions {
  isFileChecked?: boolean;
}

/** Checks the file, the schema and all rules in one snapshot. */
export function auditStore(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  options: SqliteAuditOptions,
  onProgress?: OnAuditProgress,
): AuditReport {
  sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
  return runAudit(sqlite, options, onProgress);
}

/** The problems of schema and records only: of a migration before its commit. */
export function auditRecords({ sqlite }: Pick<SqliteConnection, "sqlite">): string[] {
  return runAudit(sqlite, { atRest: false, moneyOnly: true, isFileChecked: true }).problems;
}

/**
 * The same audit in half the time: a Worker checks the file at the same time. If the file is damaged, the whole audit
 * runs again in order, because the rules rely on indexes.
 */
export async function auditStoreInParallel(
  connection: Pick<SqliteConnection, "sqlite">,
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
  { isFileChecked = false, ...options }: SqliteAuditOptions,
  onProgress?: OnAuditProgress,
): AuditReport {
  const engine: EngineChecks = {
    structure: () =>
      doNow(() => {
        const file = isFileChecked ? [] : fileProblems(sqlite);
        return [
          ...file.map((problem) => ({ subject: "database file", problem })),
          ...schemaProblems(sqlite).map((problem) => ({ subject: "schema", problem })),
        ];
      }),
    structureReadsAllRecords: true,
    rules: uniqueColumns,
    notes: crashNotes("the gateway"),
  };
  return runSync(audit(new SqliteQueries(sqlite), engine, options, onProgress));
}

/** Finds a column without a unique index. The check of the file proves the content of indexes. */
function isNotUnique(table: string, column: string): string {
  return `SELECT 'every ${table}.${column}' AS subject WHERE NOT EXISTS (
      SELECT 1 FROM pragma_index_list('${table}') AS i WHERE i."unique" AND NOT i.partial
        AND (SELECT group_concat(name) FROM pragma_index_info(i.name)) = '${column}')`;
}

const uniqueColumns = (
  [
    ["ledger", "ref"],
    ["requests", "public_id"],
    ["vouchers", "public_id"],
    ["vouchers", "hash"],
  ] as const
).map(([table, column]) => ({ problem: "is not unique", query: isNotUnique(table, column) }));
