import type { Database } from "bun:sqlite";
import {
  knownVersion,
  migrationsBetween,
  migrationStatements,
  refuseBeforeFirst,
} from "../../schema/migrationFiles.ts";
import { type SqliteConnection, sqliteFault } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";

/** A start takes milliseconds from its lock to its migration. The rest is for a busy machine. */
const GATEWAY_STARTS_WITHIN_MS = 1000;
const START_POLL_MS = 10;
/** Requests that one statement of a migration copies. */
const COPY_RANGE = 20_000;
const ROW_ID_MIN = -(2n ** 63n);
/** The rows are found by several indexes. */
const MIGRATION_CACHE_KILOBYTES = 65_536;

const REFERENCE_PROBLEMS_MAX = 100;

/** How far a migration is, in requests. */
export interface MigrationProgress {
  readonly copied: number;
  readonly total: number;
}

/** How an older database is checked, and who is told of the progress. */
export interface MigrationOptions {
  /** The problems of the schema, which has this number. */
  schemaProblems(applied: number): readonly string[];
  /** The problems of the records after the migration. */
  audit(): Promise<readonly string[]>;
  /** Throws if there are problems. Then nothing is changed. */
  refuse(problems: readonly string[]): void;
  /** Called one to eleven times for a migration that copies the requests, else never. */
  onProgress?: ((progress: MigrationProgress) => void) | undefined;
}

/** What happens before the migration of an older database. */
export interface MigrationStart {
  /** False: only a gateway may migrate the database now. */
  mayMigrate(): boolean;
  /** No other process writes from its beginning until the end of the migration. */
  prepare(version: SchemaVersion): Promise<void>;
}

/**
 * Makes this program's schema in an empty database, in one transaction. If several processes open a new file, one of them
 * makes it. SQLite's `user_version` is the number of the schema. Returns true if the database was empty. Throws
 * StoreError for a newer, an older or a foreign database, and if `mayMigrate` returns false and no gateway makes the schema.
 */
export function createSchema(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  mayMigrate: () => boolean,
): boolean {
  const version = readSchemaVersion(sqlite);
  refuseOthers(version);
  const { applied, known } = version;
  if (applied === known) return false;
  if (!mayMigrate()) {
    if (waitForMigration(sqlite, known)) return false;
    throw gatewayRunsError();
  }
  return sqlite
    .transaction(() => {
      const done = userVersion(sqlite);
      if (done === known) return false;
      if (done > 0)
        throw new StoreError("database has the schema of an earlier version by now: try again");
      refuseForeignTables(sqlite);
      applyMigrations(sqlite, 0, known);
      sqlite.run(`PRAGMA user_version = ${known}`);
      return true;
    })
    .immediate();
}

/**
 * Migrates an older database that no other process uses, in one transaction. Rejects with StoreError if its records do not
 * agree. An error and a crash leave the database as it was.
 */
export async function migrateCopy(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  options: MigrationOptions,
): Promise<void> {
  await inMigration(sqlite, () => migrateFrom(sqlite, readSchemaVersion(sqlite), options));
}

/**
 * Migrates an older database that others may use, in one transaction that begins before `prepare`. Resolves with the number
 * of the schema that it had; undefined if the database is not older, or if only a gateway may migrate it now.
 * Rejects as `migrateCopy`, and with what `prepare` throws; then the database is as it was.
 */
export async function migrateOlder(
  { sqlite }: Pick<SqliteConnection, "sqlite">,
  options: MigrationOptions & MigrationStart,
): Promise<number | undefined> {
  const found = readSchemaVersion(sqlite);
  if (!isOlder(found)) return undefined;
  refuseOthers(found);
  if (!options.mayMigrate()) return undefined;
  return await inMigration(sqlite, async () => {
    const version = readSchemaVersion(sqlite);
    // Another process may have migrated it meanwhile.
    if (!isOlder(version)) return undefined;
    await options.prepare(version);
    // An earlier version's gateway may have started meanwhile.
    if (!options.mayMigrate()) throw gatewayRunsError();
    await migrateFrom(sqlite, version, options);
    return version.applied;
  });
}

/** Runs `work` in one transaction. Foreign keys refer to tables that it replaces. */
async function inMigration<Result>(sqlite: Database, work: () => Promise<Result>): Promise<Result> {
  // SQLite ignores this pragma inside a transaction.
  sqlite.run("PRAGMA foreign_keys = OFF");
  try {
    beginWriting(sqlite);
    const result = await work();
    sqlite.run("COMMIT");
    return result;
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    // SQLite itself ends the transaction after some errors, such as a full disk.
    if (sqlite.inTransaction) sqlite.run("ROLLBACK");
    sqlite.run("PRAGMA foreign_keys = ON");
  }
}

function beginWriting(sqlite: Database): void {
  try {
    sqlite.run("BEGIN IMMEDIATE");
  } catch (cause) {
    throw toUpgradingError(cause);
  }
}

/** A process that upgrades a database keeps the others from writing, for as long as its backup and its migration take. */
function toUpgradingError(error: unknown): unknown {
  if (sqliteFault(error) !== "busy") return error;
  return new StoreError(
    "database is locked by another process, which may be upgrading it: try again when that has ended",
    { cause: error },
  );
}

function gatewayRunsError(): StoreError {
  return new StoreError(
    "database has another version's schema and a gateway is running on it: restart the gateway first",
  );
}

async function migrateFrom(
  sqlite: Database,
  { applied, known }: SchemaVersion,
  options: MigrationOptions,
): Promise<void> {
  options.refuse(options.schemaProblems(applied));
  sqlite.run(`PRAGMA cache_size = -${MIGRATION_CACHE_KILOBYTES}`);
  applyMigrations(sqlite, applied, known, options.onProgress);
  options.refuse([...referenceProblems(sqlite), ...(await options.audit())]);
  sqlite.run(`PRAGMA user_version = ${known}`);
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

/** A line for each reference to a row that does not exist. */
function referenceProblems(sqlite: Database): string[] {
  return sqlite
    .query<{ table: string; rowid: bigint | null; parent: string }, []>(
      `SELECT "table", rowid, parent FROM pragma_foreign_key_check LIMIT ${REFERENCE_PROBLEMS_MAX}`,
    )
    .all()
    .map(({ table, rowid, parent }) => `row ${rowid} of ${table}: belongs to no row of ${parent}`);
}

/** Runs the migrations from schema `done` to schema `last`. Does not set `user_version`. */
export function applyMigrations(
  sqlite: Database,
  done: number,
  last: number | undefined,
  onProgress?: MigrationOptions["onProgress"],
): void {
  for (const tag of migrationsBetween("sqlite", done, last)) {
    for (const statement of migrationStatements("sqlite", tag)) {
      if (isForRanges(statement)) copyRequests(sqlite, statement, onProgress);
      else sqlite.run(statement);
    }
  }
}

function isForRanges(statement: string): boolean {
  return statement.includes("?1");
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
 * running migration. Returns false if the database stays old. Throws StoreError if the migration takes longer.
 */
function waitForMigration(sqlite: Database, known: number): boolean {
  const deadlineMs = performance.now() + GATEWAY_STARTS_WITHIN_MS;
  const readVersion = sqlite.transaction(() => userVersion(sqlite));
  try {
    while (readVersion.immediate() !== known) {
      if (performance.now() > deadlineMs) return false;
      Bun.sleepSync(START_POLL_MS);
    }
    return true;
  } catch (error) {
    throw toUpgradingError(error);
  }
}

/** The numbers of the schemas of a database and of this program. */
export interface SchemaVersion {
  readonly applied: number;
  readonly known: number;
}

/** Whether an earlier version made the database. */
export function isOlder({ applied, known }: SchemaVersion): boolean {
  return applied > 0 && applied < known;
}

/** True if a migration of this older database copies the requests, and with them most of the file. */
export function copiesRequests({ applied, known }: SchemaVersion): boolean {
  return migrationsBetween("sqlite", applied, known).some((tag) =>
    migrationStatements("sqlite", tag).some(isForRanges),
  );
}

/** For any database, also a foreign one or one of a newer version. */
export function readSchemaVersion(sqlite: Database): SchemaVersion {
  return { applied: userVersion(sqlite), known: knownVersion("sqlite") };
}

/** Throws StoreError for a database of a newer version, of one before 0.2.0, or of another program. */
export function requireSupportedSchema(sqlite: Database): SchemaVersion {
  const version = readSchemaVersion(sqlite);
  refuseOthers(version);
  if (version.applied <= 0) refuseForeignTables(sqlite);
  return version;
}

/** Throws StoreError for a database of a newer version, or of one before 0.2.0. */
function refuseOthers({ applied, known }: SchemaVersion): void {
  refuseBeforeFirst("sqlite", applied);
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
