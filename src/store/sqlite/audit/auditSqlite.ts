import type { Database } from "bun:sqlite";
import {
  audit,
  crashNotes,
  type AuditOptions,
  type AuditReport,
  type EngineChecks,
} from "../../audit/audit.ts";
import type { OnAuditProgress } from "../../audit/auditProgress.ts";
import type { Connection } from "../../connection.ts";
import { SqliteQueries, SqliteTransaction } from "../queries.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import type { SqliteConnection } from "../sqlite.ts";

/** A larger page cache makes an audit a quarter faster. */
const AUDIT_CACHE_KILOBYTES = 64 * 1024;

/** `isFileChecked`: the caller checks the file, so the audit does not. */
export interface SqliteAuditOptions extends AuditOptions {
  isFileChecked?: boolean;
}

/** Checks the file, the schema and all rules in one snapshot. */
export function auditStore(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  options: SqliteAuditOptions,
  onProgress?: OnAuditProgress,
): Promise<AuditReport> {
  useAuditCache(sqlite);
  // A copy to a server has begun the snapshot already.
  const queries = sqlite.inTransaction ? new SqliteTransaction(sqlite) : new SqliteQueries(sqlite);
  return runAudit(queries, sqlite, options, onProgress);
}

export function useAuditCache(sqlite: Database): void {
  sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
}

/** The problems of schema and records only: of a migration before its commit. */
export async function auditRecords({
  sqlite,
}: Pick<SqliteConnection, "sqlite">): Promise<readonly string[]> {
  const options = { atRest: false, moneyOnly: true, isFileChecked: true };
  return (await runAudit(new SqliteTransaction(sqlite), sqlite, options)).problems;
}

function runAudit(
  connection: Connection,
  sqlite: Database,
  { isFileChecked = false, ...options }: SqliteAuditOptions,
  onProgress?: OnAuditProgress,
): Promise<AuditReport> {
  const engine: EngineChecks = {
    async structure() {
      const file = isFileChecked ? [] : fileProblems(sqlite);
      return [
        ...file.map((problem) => ({ subject: "database file", problem })),
        ...schemaProblems(sqlite).map((problem) => ({ subject: "schema", problem })),
      ];
    },
    structureReadsAllRecords: true,
    rules: uniqueColumns,
    notes: crashNotes("the gateway"),
  };
  return audit(connection, engine, options, onProgress);
}

/**
 * Runs SQLite's check of the file. It skips CHECK constraints, a third of the time: the audit's rules repeat them. The
 * quick check reads each page, but does not look up each row in each index.
 */
export function fileProblems(
  sqlite: Database,
  check: "integrity_check" | "quick_check" = "integrity_check",
): string[] {
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  try {
    return sqlite
      .query<{ line: string }, []>(`SELECT ${check} AS line FROM pragma_${check}`)
      .all()
      .map(({ line }) => line.replaceAll("\n", ": "))
      .filter((line) => line !== "ok");
  } finally {
    sqlite.run("PRAGMA ignore_check_constraints = OFF");
  }
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
