import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Connection, StoreError } from "../sqlite.ts";

/** From its lock to its first statement a start takes milliseconds; the rest is for a busy machine. */
const GATEWAY_STARTS_WITHIN_MS = 1000;
const START_PAUSE_MS = 10;

/**
 * In the compiled binary the SQL files are embedded beside the entry. Every module's folder is that of what
 * it is bundled into there: the root, or a Worker's, which lies in a folder of the root.
 */
function migrationsFolder(): string {
  if (!Bun.isStandaloneExecutable) return join(import.meta.dir, "../../../drizzle");
  return join(import.meta.dir, Bun.isMainThread ? "drizzle" : "../../drizzle");
}

/**
 * Brings the store to this program's schema, in one transaction: of several processes that start on
 * a new file one migrates, the others find it done. The number of applied migrations is SQLite's own
 * `user_version`, so that a store without change costs one read. Throws StoreError for a store that
 * is newer than the program, and, where `mayMigrate` says no, for one that is older. True where there was nothing
 * in the store.
 */
export function migrate(
  { sqlite }: Pick<Connection, "sqlite">,
  mayMigrate: () => boolean,
): boolean {
  const migrations = migrationTags();
  const applied = userVersion(sqlite);
  refuseNewer(applied, migrations.length);
  if (applied === migrations.length) return false;
  if (!mayMigrate()) {
    if (isBroughtUp(sqlite, migrations.length)) return false;
    throw new StoreError(
      "database has another version's schema and a gateway is running on it: restart the gateway first",
    );
  }
  return sqlite
    .transaction(() => {
      const done = userVersion(sqlite);
      if (done <= 0) refuseForeignTables(sqlite);
      applyMigrations(sqlite, Math.max(done, 0), migrations.length);
      sqlite.run(`PRAGMA user_version = ${migrations.length}`);
      return done <= 0;
    })
    .immediate();
}

/** Does the migrations from the one after `done` to `last`, and keeps no account of it. */
export function applyMigrations(
  sqlite: Connection["sqlite"],
  done: number,
  last: number | undefined,
): void {
  for (const tag of migrationTags().slice(done, last))
    for (const statement of migrationStatements(tag)) sqlite.run(statement);
}

/**
 * Whether the one that may migrate is just doing it: a gateway begins with that as soon as it has its lock. Asked as
 * one who writes: that waits for a migration under way, which takes seconds on long books.
 */
function isBroughtUp(sqlite: Connection["sqlite"], known: number): boolean {
  const deadlineMs = performance.now() + GATEWAY_STARTS_WITHIN_MS;
  const age = sqlite.transaction(() => userVersion(sqlite));
  while (age.immediate() !== known) {
    if (performance.now() > deadlineMs) return false;
    Bun.sleepSync(START_PAUSE_MS);
  }
  return true;
}

/** How many migrations a store has seen, and how many this program knows. */
export interface SchemaVersion {
  readonly applied: number;
  readonly known: number;
}

/** Of any database, also of another program's or of a newer version's. */
export function readSchemaVersion(sqlite: Connection["sqlite"]): SchemaVersion {
  return { applied: userVersion(sqlite), known: migrationTags().length };
}

/** Throws StoreError for a store that is newer than the program, or another program's. */
export function requireSupportedSchema(sqlite: Connection["sqlite"]): SchemaVersion {
  const age = readSchemaVersion(sqlite);
  refuseNewer(age.applied, age.known);
  if (age.applied <= 0) refuseForeignTables(sqlite);
  return age;
}

function refuseNewer(applied: number, known: number): void {
  if (applied <= known) return;
  throw new StoreError(
    "database was written by a newer version of tollgate: use that version, or a backup",
  );
}

/** The migrations in their order, as drizzle-kit's journal has them. Its own reader takes 10 ms of every start: it hashes. */
function migrationTags(): readonly string[] {
  const journal = JSON.parse(
    readFileSync(join(migrationsFolder(), "meta/_journal.json"), "utf8"),
  ) as {
    entries: readonly { tag: string }[];
  };
  return journal.entries.map(({ tag }) => tag);
}

function migrationStatements(tag: string): readonly string[] {
  return readFileSync(join(migrationsFolder(), `${tag}.sql`), "utf8").split(
    "--> statement-breakpoint",
  );
}

function userVersion(sqlite: Connection["sqlite"]): number {
  const row = sqlite.query<{ user_version: bigint }, []>("PRAGMA user_version").get();
  return Number(row?.user_version ?? 0);
}

/** Only a new file has version 0; tables in it are another program's, and none of ours may join them. */
function refuseForeignTables(sqlite: Connection["sqlite"]): void {
  if (sqlite.query("SELECT 1 FROM sqlite_schema LIMIT 1").get() === null) return;
  throw new StoreError(
    "database belongs to another program: name another file as the path of [database]",
  );
}
