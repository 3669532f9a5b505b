import type { ReservedSQL, SQL } from "bun";
import {
  FIRST_SCHEMA,
  migrationStatements,
  refuseBeforeFirst,
  type UpgradePlan,
} from "../../schema/migrationFiles.ts";
import { StoreError } from "../../storeError.ts";
import { LOCKS } from "../locks.ts";
import { messageOf, sqlState } from "../writer/failures.ts";
import { untilUnlocked, WAIT_BRIEFLY, type LockWait } from "./lockWait.ts";

/**
 * The migrations of one release, by name. They are applied in one transaction. `oldest` is the smallest number of a schema
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
    { migrations: ["0000_tables"], oldest: FIRST_SCHEMA.postgres },
    { migrations: ["0001_key_addresses"], oldest: FIRST_SCHEMA.postgres },
    { migrations: ["0002_requests_of_account"], oldest: FIRST_SCHEMA.postgres },
    // The version before writes columns that are gone.
    { migrations: ["0003_figures"], oldest: 6 },
    { migrations: ["0004_pricing"], oldest: 6 },
    { migrations: ["0005_cache_saved"], oldest: 6 },
    { migrations: ["0006_figure_parts"], oldest: 6 },
  ],
  statements: (migration) => migrationStatements("postgres", migration),
};

/** The number of the database's schema, and the smallest one that a program must know. */
interface SchemaVersion {
  readonly applied: number;
  readonly oldest: number;
}

/** The version of the database's schema, and the number of the schema that this program knows. */
export interface ServerSchema extends SchemaVersion {
  readonly known: number;
}

/** The callbacks of the upgrade of an older database, which must not throw, and what ends its waits for locks. */
export interface UpgradeWatch extends LockWait {
  /** This process is about to migrate the database. Another process may do it first. */
  readonly onUpgrade?: (version: ServerSchema) => void;
  /** The database has this program's schema. */
  readonly onUpgraded?: (version: ServerSchema, tookMs: number) => void;
}

const NEWER_SCHEMA =
  "the database was upgraded by a newer version of tollgate, and this version cannot work with it any more: upgrade this one";
/** Until the session ends, so that two processes never take turns with their tries. */
const LOCK_SCHEMA = `SELECT pg_advisory_lock(${LOCKS.migration})`;
const UNLOCK_SCHEMA = `SELECT pg_advisory_unlock(${LOCKS.migration})`;
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
 * processes open a database, one of them migrates and the others wait. A release whose tables others use is tried again until
 * it gets its locks, and each try is short: replicas of the version before go on. A database that a newer version has
 * upgraded is left as it is if this program can work with it. Returns true if the database was empty. Throws StoreError for
 * one that this program cannot work with, for a foreign one, if the server refuses a migration, and StoppedError; then what
 * its release has changed is rolled back. Throws the errors of a lost connection. `sql` has two connections or more: one of
 * them looks for what blocks.
 */
export async function migrateServer(
  sql: SQL,
  schema = knownSchema,
  watch: UpgradeWatch = {},
): Promise<boolean> {
  const known = versionOf(schema);
  const found = await readVersion(sql);
  if (found !== undefined) refuseOthers(found, known);
  const before = found?.applied ?? 0;
  if (found !== undefined && before >= known) return false;
  const older = found !== undefined && before > 0 ? { ...found, known } : undefined;
  const beganMs = performance.now();
  if (older) watch.onUpgrade?.(older);
  const wasEmpty = await applyReleases(sql, schema, watch);
  if (older) watch.onUpgraded?.(older, performance.now() - beganMs);
  return wasEmpty;
}

/** Applies the releases that are missing when no other process migrates. */
async function applyReleases(sql: SQL, schema: KnownSchema, wait: UpgradeWatch): Promise<boolean> {
  const connection = await sql.reserve();
  try {
    const [row] = await connection.unsafe<{ readonly pid: number }[]>(
      "SELECT pg_backend_pid() AS pid",
    );
    const options = { sql, pid: row?.pid ?? 0, wait };
    await untilUnlocked({ ...options, isHarmless: true }, () =>
      inTransaction(connection, () => connection.unsafe(LOCK_SCHEMA)),
    );
    let wasEmpty = false;
    for (let applied = 0; applied < versionOf(schema);) {
      const step = await untilUnlocked({ ...options, isHarmless: false }, () =>
        inTransaction(connection, () => applyRelease(connection, schema)),
      );
      wasEmpty ||= step.before === 0 && step.after > 0;
      applied = step.after;
    }
    return wasEmpty;
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    await unlock(connection);
  }
}

/** Each statement sees what was committed while the one before it waited for a lock. */
async function inTransaction<Result>(
  connection: ReservedSQL,
  work: () => PromiseLike<Result>,
): Promise<Result> {
  await connection.unsafe("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  try {
    await connection.unsafe(WAIT_BRIEFLY);
    const result = await work();
    await connection.unsafe("COMMIT");
    return result;
  } catch (error) {
    // A lost connection has no transaction any more.
    await connection.unsafe("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Never rejects: the server unlocks what a lost connection had. */
async function unlock(connection: ReservedSQL): Promise<void> {
  await connection.unsafe(UNLOCK_SCHEMA).catch(() => undefined);
  void connection.release();
}

/** Applies the next release. Another process may have applied all of them meanwhile. */
async function applyRelease(
  connection: ReservedSQL,
  schema: KnownSchema,
): Promise<{ readonly before: number; readonly after: number }> {
  const version = (await readVersion(connection)) ?? (await makeVersion(connection));
  refuseOthers(version, versionOf(schema));
  const after = await applyNext(connection, schema, version.applied);
  return { before: version.applied, after };
}

/** Returns the number of the database's schema then. */
async function applyNext(
  connection: ReservedSQL,
  schema: KnownSchema,
  applied: number,
): Promise<number> {
  const [next] = missingReleases(schema, applied);
  if (next === undefined) return applied;
  for (const migration of next.migrations)
    for (const statement of schema.statements(migration)) await connection.unsafe(statement);
  await connection`
    UPDATE schema_version SET applied = ${next.last}, oldest = greatest(oldest, ${next.oldest})`;
  return next.last;
}

/** The releases after the schema of this number, with what is missing of each and the number of its schema. */
function missingReleases({ releases }: KnownSchema, applied: number) {
  let last = FIRST_SCHEMA.postgres - 1;
  return releases.flatMap(({ migrations, oldest }) => {
    const first = last;
    last += migrations.length;
    if (last <= applied) return [];
    return [{ migrations: migrations.slice(Math.max(0, applied - first)), oldest, last }];
  });
}

/** What an upgrade would do. Throws StoreError for a database that this program cannot work with. */
export async function planUpgrade(sql: SQL, schema = knownSchema): Promise<UpgradePlan> {
  const known = versionOf(schema);
  const found = await readServerSchema(sql, schema);
  if (found !== undefined) refuseOthers(found, known);
  const applied = found?.applied ?? 0;
  const releases = missingReleases(schema, applied).map(({ migrations, oldest }) => ({
    migrations,
    goesOn: applied === 0 ? undefined : oldest <= applied,
  }));
  return { applied, known, releases };
}

async function makeVersion(connection: ReservedSQL): Promise<SchemaVersion> {
  const [foreign] = await connection.unsafe<unknown[]>(FOREIGN_TABLE);
  if (foreign !== undefined) throw foreignError();
  await connection.unsafe(MAKE_VERSION);
  return { applied: 0, oldest: 0 };
}

export function versionOf({ releases }: KnownSchema): number {
  const first = FIRST_SCHEMA.postgres - 1;
  return releases.reduce((sum, { migrations }) => sum + migrations.length, first);
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
  if (version !== undefined) return { ...version, known: versionOf(schema) };
  const [foreign] = await sql.unsafe<unknown[]>(FOREIGN_TABLE);
  if (foreign !== undefined) throw foreignError();
  return undefined;
}

/** Throws StoreError for a database of a newer version, or of one before 0.2.0. */
function refuseOthers({ applied, oldest }: SchemaVersion, known: number): void {
  refuseBeforeFirst("postgres", applied);
  if (known < oldest) throw new StoreError(NEWER_SCHEMA);
}

function foreignError(): StoreError {
  return new StoreError(
    "the database has tables of another program: give tollgate a database of its own as the url of [database]",
  );
}

function toMigrationError(error: unknown): unknown {
  const state = sqlState(error);
  // A lost connection has no code, or one of these classes. For missing rights the caller has advice.
  if (error instanceof StoreError || state === undefined || /^(?:08|57|3F|42501)/.test(state))
    return error;
  return new StoreError(
    `the database cannot be migrated to this version, and the step that failed has changed nothing: ${messageOf(error)}`,
    { cause: error },
  );
}
