import type { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Connection, StoreError } from "../sqlite.ts";

/** A start takes milliseconds from its lock to its migration. The rest is for a busy machine. */
const GATEWAY_STARTS_WITHIN_MS = 1000;
const START_POLL_MS = 10;

/**
 * The executable embeds the SQL files beside its entry point. `import.meta.dir` is the root there, or in a Worker a
 * folder two levels below.
 */
function migrationsFolder(): string {
  if (!Bun.isStandaloneExecutable) return join(import.meta.dir, "../../../drizzle");
  return join(import.meta.dir, Bun.isMainThread ? "drizzle" : "../../drizzle");
}

/**
 * Migrates the database to this program's schema in one transaction. If several processes open a new file, one of them
 * migrates. SQLite's `user_version` counts the applied migrations. Returns true if the database was empty. Throws
 * StoreError for a newer or a foreign database, and for an older one if `mayMigrate` returns false.
 */
export function migrate(
  { sqlite }: Pick<Connection, "sqlite">,
  mayMigrate: () => boolean,
): boolean {
  const known = migrationTags().length;
  const applied = userVersion(sqlite);
  refuseNewer(applied, known);
  if (applied === known) return false;
  if (!mayMigrate()) {
    if (waitForMigration(sqlite, known)) return false;
    throw new StoreError(
      "database has another version's schema and a gateway is running on it: restart the gateway first",
    );
  }
  return sqlite
    .transaction(() => {
      const done = userVersion(sqlite);
      if (done <= 0) refuseForeignTables(sqlite);
      applyMigrations(sqlite, Math.max(done, 0), known);
      sqlite.run(`PRAGMA user_version = ${known}`);
      return done <= 0;
    })
    .immediate();
}

/** Runs the migrations after the first `done` up to number `last`. Does not set `user_version`. */
export function applyMigrations(sqlite: Database, done: number, last: number | undefined): void {
  for (const tag of migrationTags().slice(done, last))
    for (const statement of migrationStatements(tag)) sqlite.run(statement);
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
  return { applied: userVersion(sqlite), known: migrationTags().length };
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

/** In the order of drizzle-kit's journal. Drizzle's own reader also hashes the files, which takes 10 ms of each start. */
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
