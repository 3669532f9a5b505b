import type { SQL, TransactionSQL } from "bun";
import { migrationStatements } from "../../schema/migrationFiles.ts";
import { StoreError } from "../../storeError.ts";
import { LOCKS } from "../locks.ts";
import { messageOf, sqlState } from "../writer/failures.ts";

/**
 * The migrations of one release, by name. They are applied in one transaction. `oldest` is the smallest number of migrations
 * that a program must know to work with the schema after them. A release that only adds leaves it as it is, so that the
 * version before goes on beside this one. A release that removes or changes what the version before uses raises it. Between a
 * change of rows and a change of their table a migration says SET CONSTRAINTS ALL IMMEDIATE: deferred triggers wait for the
 * rows.
 */
interface Release {
  readonly migrations: readonly string[];
  readonly oldest: number;
}

/** What a program knows of the schema. Tests have longer ones. */
export interface KnownSchema {
  readonly releases: readonly Release[];
  readonly statements: (migration: string) => readonly string[];
}

export const knownSchema: KnownSchema = {
  releases: [
    { migrations: ["0000_tables", "0001_rules"], oldest: 2 },
    { migrations: ["0002_notices"], oldest: 2 },
    { migrations: ["0003_key_addresses"], oldest: 2 },
  ],
  statements: (migration) => migrationStatements("postgres", migration),
};

/** The number of migrations that were applied, and that a program must know. */
interface SchemaVersion {
  readonly applied: number;
  readonly oldest: number;
}

/** The same, and the number that this program knows. */
export interface ServerSchema extends SchemaVersion {
  readonly known: number;
}

/** Is told that this process is about to migrate an older database. Another process may do it first. */
export type OnUpgrade = (version: ServerSchema) => void;

const NEWER_SCHEMA =
  "the database was upgraded by a newer version of tollgate, and this version cannot work with it any more: upgrade this one";
const LOCK_SCHEMA = `SELECT pg_advisory_xact_lock(${LOCKS.migration})`;
/** The user may have a limit that is too short for the wait or for a migration. */
const NO_LIMITS = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";
const MAKE_VERSION = `CREATE TABLE schema_version (
  applied bigint NOT NULL, oldest bigint NOT NULL, CHECK (oldest BETWEEN 0 AND applied)
);
CREATE UNIQUE INDEX schema_version_is_one ON schema_version ((true));
INSERT INTO schema_version (applied, oldest) VALUES (0, 0)`;
/** Another program may have a table of this name. NULL: there is no such table. */
const VERSION_COLUMNS = `SELECT CASE WHEN to_regclass('schema_version') IS NOT NULL THEN (
  SELECT CAST(count(*) AS integer) FROM pg_attribute
  WHERE attrelid = to_regclass('schema_version') AND attname IN ('applied', 'oldest') AND NOT attisdropped
) END AS found`;
/** Extensions may bring tables. */
const FOREIGN_TABLE = `SELECT relname FROM pg_class
  WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = CAST('pg_class' AS regclass) AND objid = pg_class.oid AND deptype = 'e')
  ORDER BY relname LIMIT 1`;

/**
 * Brings the database to this program's schema, one transaction for each release. Call it at each opening. If several
 * processes open a database, one of them migrates and the others wait. A database that a newer version has upgraded is left
 * as it is if this program can work with it. Returns true if the database was empty. Throws StoreError for one that this
 * program cannot work with, for a foreign one, and if the server refuses a migration; then what its release has changed is
 * rolled back. `onUpgrade` is called before an older database is migrated. Throws the errors of a lost connection.
 */
export async function migrateServer(
  sql: SQL,
  schema = knownSchema,
  onUpgrade?: OnUpgrade,
): Promise<boolean> {
  const known = countMigrations(schema);
  const found = await readVersion(sql);
  if (found !== undefined) refuseNewer(found, known);
  let applied = found?.applied ?? 0;
  if (found !== undefined && applied > 0 && applied < known) onUpgrade?.({ ...found, known });
  let wasEmpty = false;
  while (applied < known) {
    const step = await applyRelease(sql, schema);
    wasEmpty ||= step.before === 0 && step.after > 0;
    applied = step.after;
  }
  return wasEmpty;
}

/** Applies the next release, unless another process has applied all of them meanwhile. */
async function applyRelease(
  sql: SQL,
  schema: KnownSchema,
): Promise<{ readonly before: number; readonly after: number }> {
  try {
    // Each statement sees what was committed while the one before it waited for the lock.
    return await sql.begin("ISOLATION LEVEL READ COMMITTED READ WRITE", async (transaction) => {
      await transaction.unsafe(NO_LIMITS);
      await transaction.unsafe(LOCK_SCHEMA);
      const version = (await readVersion(transaction)) ?? (await makeVersion(transaction));
      refuseNewer(version, countMigrations(schema));
      const after = await applyNext(transaction, schema, version.applied);
      return { before: version.applied, after };
    });
  } catch (error) {
    throw toMigrationError(error);
  }
}

/** Returns the number of migrations that are applied then. */
async function applyNext(
  transaction: TransactionSQL,
  { releases, statements }: KnownSchema,
  applied: number,
): Promise<number> {
  let last = 0;
  for (const { migrations, oldest } of releases) {
    const first = last;
    last += migrations.length;
    if (last <= applied) continue;
    for (const migration of migrations.slice(Math.max(0, applied - first)))
      for (const statement of statements(migration)) await transaction.unsafe(statement);
    await transaction`
      UPDATE schema_version SET applied = ${last}, oldest = greatest(oldest, ${oldest})`;
    return last;
  }
  return applied;
}

async function makeVersion(transaction: TransactionSQL): Promise<SchemaVersion> {
  const [foreign] = await transaction.unsafe<unknown[]>(FOREIGN_TABLE);
  if (foreign !== undefined) throw foreignError();
  await transaction.unsafe(MAKE_VERSION);
  return { applied: 0, oldest: 0 };
}

/** The number of migrations that this program knows. */
export function knownMigrations(): number {
  return countMigrations(knownSchema);
}

export function countMigrations({ releases }: KnownSchema): number {
  return releases.reduce((sum, { migrations }) => sum + migrations.length, 0);
}

/** Undefined for a database without a table of versions. Throws StoreError if the table is that of another program. */
async function readVersion(sql: SQL): Promise<SchemaVersion | undefined> {
  const [columns] = await sql.unsafe<{ readonly found: number | null }[]>(VERSION_COLUMNS);
  if (columns?.found === undefined || columns.found === null) return undefined;
  if (columns.found !== 2) throw foreignError();
  const [row] = await sql.unsafe<{ readonly applied: bigint; readonly oldest: bigint }[]>(
    "SELECT applied, oldest FROM schema_version",
  );
  if (row === undefined) throw foreignError();
  return { applied: Number(row.applied), oldest: Number(row.oldest) };
}

/** Undefined for a database without tables of this program. Throws StoreError for one of another program. */
export async function readServerSchema(
  sql: SQL,
  schema = knownSchema,
): Promise<ServerSchema | undefined> {
  const version = await readVersion(sql);
  if (version !== undefined) return { ...version, known: countMigrations(schema) };
  const [foreign] = await sql.unsafe<unknown[]>(FOREIGN_TABLE);
  if (foreign !== undefined) throw foreignError();
  return undefined;
}

function refuseNewer({ oldest }: SchemaVersion, known: number): void {
  if (known < oldest) throw new StoreError(NEWER_SCHEMA);
}

function foreignError(): StoreError {
  return new StoreError(
    "the database has tables of another program: give tollgate a database of its own as the url of [database]",
  );
}

function toMigrationError(error: unknown): unknown {
  const state = sqlState(error);
  // A lost connection has no code, or one of these classes.
  if (error instanceof StoreError || state === undefined || /^(?:08|57)/.test(state)) return error;
  return new StoreError(
    `the database cannot be migrated to this version, and the step that failed has changed nothing: ${messageOf(error)}`,
    { cause: error },
  );
}
