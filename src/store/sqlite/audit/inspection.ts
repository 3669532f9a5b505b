import { Database } from "bun:sqlite";
import { statSync } from "node:fs";
import { NAME_ANOTHER } from "../databaseFile.ts";
import { settingsProblems } from "../../audit/audit.ts";
import { SqliteQueries } from "../queries.ts";
import { fileProblems } from "./auditSqlite.ts";
import { isGatewayRunning } from "../lock.ts";
import { isOlder, requireSupportedSchema, type SchemaVersion } from "../schema/migrations.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import { upgradeRoom, type UpgradeRoom } from "../schema/upgrade.ts";
import {
  setUntrustedFilePragmas,
  toStoreError,
  refuseOrphanedWal,
  notFileMessage,
  setBusyTimeout,
} from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { LAST_ENTRY } from "../../tables/lastEntry.ts";

/** What `doctor` reads from a database. */
export interface StoreInspection {
  readonly schema: SchemaVersion;
  /** What the upgrade of an older database needs; undefined for another one. */
  readonly upgradeRoom: UpgradeRoom | undefined;
  readonly isGatewayRunning: boolean;
  /** The size without the WAL. */
  readonly bytes: number;
  /** The problems that SQLite finds in the file, at most a hundred. */
  readonly problems: readonly string[];
  /** The differences from the schema of its version. */
  readonly schemaProblems: readonly string[];
  /** Damaged settings of keys and accounts. Empty for another version's schema. */
  readonly settingsProblems: readonly string[];
  /** False if the file is so large that only SQLite's quick check ran. */
  readonly isFullyChecked: boolean;
  /** The later time of the last credit, debit or refund and the end of the last request. */
  readonly lastEntryMs: number | undefined;
}

/** SQLite's full check takes 7 s for 240 MB in bad order, its quick check 0.4 s. */
const FULL_CHECK_BYTES_MAX = 32 * 1024 * 1024;
const INSPECTION_WAIT_MS = 1000;

/** Inspects a database without a change; undefined if there is none. A gateway may be running on it. Rejects with StoreError. */
export async function inspectStore(path: string): Promise<StoreInspection | undefined> {
  let sqlite: Database | undefined;
  try {
    // SQLite deletes an orphaned WAL even on a read-only open.
    refuseOrphanedWal(path);
    const status = statSync(path, { throwIfNoEntry: false });
    if (status === undefined) return undefined;
    // Opening a pipe would wait for a writer.
    if (!status.isFile()) throw new StoreError(notFileMessage(path));
    sqlite = new Database(path, { readonly: true });
    return await inspect(sqlite, path, status.size);
  } catch (cause) {
    const error = toStoreError(path, cause);
    if (error instanceof StoreError) throw error;
    throw new StoreError(
      `database cannot be read: ${path}; run as the user of the gateway, or ${NAME_ANOTHER}`,
      { cause },
    );
  } finally {
    sqlite?.close();
  }
}

async function inspect(sqlite: Database, path: string, bytes: number): Promise<StoreInspection> {
  setBusyTimeout(sqlite, INSPECTION_WAIT_MS);
  setUntrustedFilePragmas(sqlite);
  const schema = requireSupportedSchema(sqlite);
  const isFullyChecked = bytes <= FULL_CHECK_BYTES_MAX;
  const problems = fileProblems(sqlite, isFullyChecked ? "integrity_check" : "quick_check");
  const isCurrent = schema.applied === schema.known;
  const schemaLines = schemaProblems(sqlite, isCurrent ? undefined : schema.applied);
  // A changed table may lack the columns of the query.
  const hasTables = schema.applied > 0 && !schemaLines.some((line) => line.startsWith("table "));
  return {
    schema,
    upgradeRoom: isOlder(schema) ? upgradeRoom(sqlite, path, schema) : undefined,
    isGatewayRunning: isGatewayRunning(path),
    bytes,
    problems,
    schemaProblems: schemaLines,
    settingsProblems:
      isCurrent && problems.length + schemaLines.length === 0
        ? await settingsProblems(new SqliteQueries(sqlite))
        : [],
    isFullyChecked,
    lastEntryMs: hasTables ? lastEntryMs(sqlite) : undefined,
  };
}

function lastEntryMs(sqlite: Database): number | undefined {
  return sqlite.query<{ at: number | null }, []>(LAST_ENTRY).get()?.at ?? undefined;
}
