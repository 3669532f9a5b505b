import { Database } from "bun:sqlite";
import { statSync } from "node:fs";
import { NAME_ANOTHER } from "../databaseFile.ts";
import { settingsChecks } from "./audit.ts";
import { fileProblems, PROBLEMS_PER_RULE_MAX } from "./integrity.ts";
import { isGatewayRunning } from "../lock.ts";
import { requireSupportedSchema, type SchemaVersion } from "../schema/migrations.ts";
import { schemaProblems } from "../schema/schemaCheck.ts";
import { setUntrustedFilePragmas, toStoreError, refuseOrphanedWal, StoreError } from "../sqlite.ts";

/** What can be told of a store's file without changing it. */
export interface StoreInspection {
  readonly schema: SchemaVersion;
  readonly isGatewayRunning: boolean;
  /** Without its write-ahead log. */
  readonly bytes: number;
  /** What SQLite finds wrong with the file, a line each; at most a hundred. */
  readonly problems: readonly string[];
  /** What its schema lacks or has otherwise than that of its version, a line each. */
  readonly schemaProblems: readonly string[];
  /** Keys and accounts with settings that are none, a line each; asked of this version's schema only. */
  readonly settingsProblems: readonly string[];
  /** False where the file is so big that only the quicker of SQLite's checks was made. */
  readonly isWhollyChecked: boolean;
  /** When the last booking or request came into the books, whichever is later; undefined: there is none. */
  readonly lastEntryMs: number | undefined;
}

/** SQLite's whole check looks each row up in each index, 7 s for 240 MB in bad order; its quick one takes 0.4 s. */
const WHOLE_CHECK_BYTES_MAX = 32 * 1024 * 1024;
const BUSY_TIMEOUT_MS = 1000;

/**
 * Inspects the store's file and changes nothing in it; undefined where there is none. A gateway may run on it
 * meanwhile. Throws StoreError.
 */
export function inspectStore(path: string): StoreInspection | undefined {
  let sqlite: Database | undefined;
  try {
    // SQLite removes such a log even for who only reads.
    refuseOrphanedWal(path);
    const status = statSync(path, { throwIfNoEntry: false });
    if (status === undefined) return undefined;
    // Opening a pipe would wait for whoever writes to it.
    if (!status.isFile()) throw new StoreError(`database is no file: ${path}; ${NAME_ANOTHER}`);
    sqlite = new Database(path, { readonly: true });
    return inspect(sqlite, path, status.size);
  } catch (cause) {
    const failure = toStoreError(path, cause);
    if (failure instanceof StoreError) throw failure;
    throw new StoreError(
      `database cannot be looked at: ${path}; run as the user of the gateway, or ${NAME_ANOTHER}`,
      { cause },
    );
  } finally {
    sqlite?.close();
  }
}

function inspect(sqlite: Database, path: string, bytes: number): StoreInspection {
  sqlite.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  setUntrustedFilePragmas(sqlite);
  const schema = requireSupportedSchema(sqlite);
  const isWhollyChecked = bytes <= WHOLE_CHECK_BYTES_MAX;
  const problems = fileProblems(sqlite, isWhollyChecked ? "integrity_check" : "quick_check");
  const isCurrent = schema.applied === schema.known;
  const ofSchema = schemaProblems(sqlite, isCurrent ? undefined : schema.applied);
  // A table that is not the program's own may lack the columns that are asked for.
  const hasTables = schema.applied > 0 && !ofSchema.some((line) => line.startsWith("table "));
  return {
    schema,
    isGatewayRunning: isGatewayRunning(path),
    bytes,
    problems,
    schemaProblems: ofSchema,
    settingsProblems:
      isCurrent && problems.length + ofSchema.length === 0 ? settingsProblems(sqlite) : [],
    isWhollyChecked,
    lastEntryMs: hasTables ? lastEntryMs(sqlite) : undefined,
  };
}

function settingsProblems(sqlite: Database): readonly string[] {
  return settingsChecks.flatMap(({ problem, query }) =>
    sqlite
      .query<{ subject: string }, []>(`${query} LIMIT ${PROBLEMS_PER_RULE_MAX}`)
      .all()
      .map(({ subject }) => `${subject}: ${problem}`),
  );
}

/** By their order, not by their times: a clock that was ahead for a while is forgotten with the next entry. */
function lastEntryMs(sqlite: Database): number | undefined {
  const last = sqlite
    .query<{ at: number | null }, []>(
      `SELECT max(at) AS at FROM (
        SELECT at FROM ledger WHERE id = (SELECT max(id) FROM ledger)
        UNION ALL SELECT at FROM requests WHERE id = (SELECT max(id) FROM requests))`,
    )
    .get();
  return last?.at ?? undefined;
}
