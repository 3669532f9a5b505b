import type { Database } from "bun:sqlite";
import { migrationStatements, migrationTags } from "../../schema/migrationFiles.ts";
import { type SqliteConnection, sqliteFault } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { problemsBefore, referenceProblems } from "./migrationChecks.ts";

/** A start takes milliseconds from its lock to its migration. The rest is for a busy machine. */
const GATEWAY_STARTS_WITHIN_MS = 1000;
const START_POLL_MS = 10;
/** Requests that one statement of a migration copies. */
const COPY_RANGE = 20_000;
const ROW_ID_MIN = -(2n ** 63n);
/** The rows are found by several indexes. */
const MIGRATION_CACHE_KILOBYTES = 65_536;

/** How far a migration is, in requests. */
export interface MigrationProgress {
  readonly copied: number;
  readonly total: number;
}

/** How a database is migrated. The records of an empty one are not checked. */
export interface MigrationOptions {
  /** False: only a gateway may migrate the database now. */
  mayMigrate(): boolean;
  /** The problems of the schema, which has this number of migrations. */
  schemaProblems(applied: number): readonly string[];
  /** The problems of the records after the migration. */
  audit(): readonly string[];
  /** Throws if there are problems. Then nothing is changed. */
  refuse(problems: readonly string[]): void;
  /** Called one to eleven times, unless the database is empty. */
  onProgress?: ((progress: MigrationProgress) => void) | undefined;
}

/**
 * Migrates the database to this program's schema in one transaction. If several processes open a new file, one of them
 * migrates. SQLite's `user_version` counts the applied migrations. Returns true if the database was empty. Throws
 * StoreError for a newer or a foreign database, for an older one if `mayMigrate` returns false, and for one whose
 * records do not agree. An error and a crash leave the database as it was.
 */
export function migrate(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  options: MigrationOptions,
): boolean {
  const known = migrationTags("sqlite").length;
  const applied = userVersion(sqlite);
  refuseNewer(applied, known);
  if (applied === known) return false;
  if (!options.mayMigrate()) {
    if (waitForMigration(sqlite, known)) return false;
    throw new StoreError(
      "database has another version's schema and a gateway is running on it: restart the gateway first",
    );
  }
  // SQLite ignores this pragma inside a transaction. A table cannot be replaced while foreign keys refer to it.
  sqlite.run("PRAGMA foreign_keys = OFF");
  try {
    return sqlite.transaction(() => migrateFrom(sqlite, known, options)).immediate();
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    sqlite.run("PRAGMA foreign_keys = ON");
  }
}

/** Returns true if the database was empty. */
function migrateFrom(sqlite: Database, known: number, options: MigrationOptions): boolean {
  const done = userVersion(sqlite);
  // Another process has migrated it meanwhile.
  if (done === known) return false;
  if (done <= 0) {
    refuseForeignTables(sqlite);
    applyMigrations(sqlite, 0, known);
  } else {
    options.refuse(options.schemaProblems(done));
    sqlite.run(`PRAGMA cache_size = -${MIGRATION_CACHE_KILOBYTES}`);
    applyMigrations(sqlite, done, known, options);
    options.refuse([...referenceProblems(sqlite), ...options.audit()]);
  }
  sqlite.run(`PRAGMA user_version = ${known}`);
  return done <= 0;
}

/** Throws StoreError. */
export function refuseMigration(problems: readonly string[]): void {
  const [first] = problems;
  if (first === undefined) return;
  throw notMigratedError(`problems: ${problems.length}, the first: ${first}`);
}

function toMigrationError(error: unknown): unknown {
  const fault = sqliteFault(error);
  if (error instanceof StoreError || (fault !== "constraint" && fault !== "other")) return error;
  return notMigratedError(error instanceof Error ? error.message : String(error), error);
}

function notMigratedError(reason: string, cause?: unknown): StoreError {
  return new StoreError(
    `database cannot be migrated to this version, and was not changed: ${reason}; \`tollgate audit\` of the version before shows what is wrong, \`tollgate restore FILE\` puts a backup in its place`,
    { cause },
  );
}

/**
 * Runs the migrations after the first `done` up to number `last`. Does not set `user_version`. `options`: also checks
 * what a migration relies on, and reports progress.
 */
export function applyMigrations(
  sqlite: Database,
  done: number,
  last: number | undefined,
  options?: MigrationOptions,
): void {
  for (const tag of migrationTags("sqlite").slice(done, last)) {
    options?.refuse(problemsBefore(sqlite, tag));
    for (const statement of migrationStatements("sqlite", tag)) {
      if (statement.includes("?1")) copyRequests(sqlite, statement, options?.onProgress);
      else sqlite.run(statement);
    }
  }
}

/** Runs a statement for ranges of the ids of requests: above ?1, up to ?2. */
function copyRequests(
  sqlite: Database,
  statement: string,
  onProgress: MigrationOptions["onProgress"],
): void {
  const total = Number(
    sqlite.query<{ rows: bigint }, []>("SELECT count(*) AS rows FROM requests").get()?.rows,
  );
  const endOfRange = sqlite.query<{ id: bigint | null; rows: bigint }, [bigint]>(
    `SELECT max(id) AS id, count(*) AS rows FROM (SELECT id FROM requests WHERE id > ? ORDER BY id LIMIT ${COPY_RANGE})`,
  );
  let copied = 0;
  let reported = -1;
  for (let after = ROW_ID_MIN; ;) {
    const tenth = Math.floor((copied / Math.max(total, 1)) * 10);
    if (tenth > reported) onProgress?.({ copied, total });
    reported = tenth;
    const range = endOfRange.get(after);
    if (range === null || range.id === null) return;
    sqlite.run(statement, [after, range.id]);
    after = range.id;
    copied += Number(range.rows);
  }
}

/**
 * Waits for a gateway that just started: it migrates as soon as it has its lock. The write transaction waits for a
 * running migration, which takes seconds for a large database. Returns false if the database stays old.
 */
function waitForMigration(sqlite: Database, known: number): boolean {
  const deadlineMs = performance.now() + GATEWAY_STARTS_WITHIN_MS;
  const readVersion = sqlite.transaction(() => userVersion(sqlite));
  while (readVersion.immediate() !== known) {
    if (performance.now() > deadlineMs) return false;
    Bun.sleepSync(START_POLL_MS);
  }
  return true;
}

/** The number of migrations that were applied to a database, and that this program has. */
export interface SchemaVersion {
  readonly applied: number;
  readonly known: number;
}

/** For any database, also a foreign one or one of a newer version. */
export function readSchemaVersion(sqlite: Database): SchemaVersion {
  return { applied: userVersion(sqlite), known: migrationTags("sqlite").length };
}

/** Throws StoreError for a database of a newer version or of another program. */
export function requireSupportedSchema(sqlite: Database): SchemaVersion {
  const version = readSchemaVersion(sqlite);
  refuseNewer(version.applied, version.known);
  if (version.applied <= 0) refuseForeignTables(sqlite);
  return version;
}

function refuseNewer(applied: number, known: number): void {
  if (applied <= known) return;
  throw new StoreError(
    "database was written by a newer version of tollgate: use that version, or a backup",
  );
}

function userVersion(sqlite: Database): number {
  const row = sqlite.query<{ user_version: bigint }, []>("PRAGMA user_version").get();
  return Number(row?.user_version ?? 0);
}

/** A new file has version 0 and no tables. */
function refuseForeignTables(sqlite: Database): void {
  if (sqlite.query("SELECT 1 FROM sqlite_schema LIMIT 1").get() === null) return;
  throw new StoreError(
    "database belongs to another program: name another file as the path of [database]",
  );
}
