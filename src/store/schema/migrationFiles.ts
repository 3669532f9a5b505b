import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { StoreError } from "../storeError.ts";

/** What a store is made on. Each has a folder of migrations. */
export type Engine = "sqlite" | "postgres";

/** What an upgrade of a database does. */
export interface UpgradePlan {
  /** The number of the database's schema; 0 if it is empty or does not exist. */
  readonly applied: number;
  /** The number that this program has. */
  readonly known: number;
  /** What is applied, each in one transaction. `goesOn`: whether the version before works beside it; undefined: there is none. */
  readonly releases: readonly {
    readonly migrations: readonly string[];
    readonly goesOn: boolean | undefined;
  }[];
}

/**
 * The executable embeds the SQL files beside its main entry point. The entry point of a Worker is three folders below. This
 * module is no guide there: the build may move it into a file that both share.
 */
function migrationsFolder(engine: Engine): string {
  if (!Bun.isStandaloneExecutable) return join(import.meta.dir, "../../../drizzle", engine);
  const root = Bun.isMainThread ? "." : "../../..";
  return join(dirname(Bun.main), root, "drizzle", engine);
}

/** The number of the schema of 0.2.0. The first migration makes it. */
export const FIRST_SCHEMA = { sqlite: 8, postgres: 3 } as const;

/** The number of the schema that this program has. */
export function knownVersion(engine: Engine): number {
  return FIRST_SCHEMA[engine] - 1 + migrationTags(engine).length;
}

/** The names of the migrations from one schema to another, in their order. `last`: undefined for this program's schema. */
export function migrationsBetween(
  engine: Engine,
  applied: number,
  last?: number,
): readonly string[] {
  const place = (version: number) => Math.max(0, version - FIRST_SCHEMA[engine] + 1);
  const tags = migrationTags(engine);
  return tags.slice(place(applied), last === undefined ? tags.length : place(last));
}

/** Throws StoreError for a database that a version before 0.2.0 made. */
export function refuseBeforeFirst(engine: Engine, applied: number): void {
  if (applied <= 0 || applied >= FIRST_SCHEMA[engine]) return;
  throw new StoreError(
    "the database was made by a version before 0.2.0: start tollgate 0.2.0 on it once, and then this version",
  );
}

/** In the order of drizzle-kit's journal. Drizzle's own reader also hashes the files, which takes 10 ms of each start. */
function migrationTags(engine: Engine): readonly string[] {
  const path = join(migrationsFolder(engine), "meta/_journal.json");
  const journal = JSON.parse(readFileSync(path, "utf8")) as {
    entries: readonly { tag: string }[];
  };
  return journal.entries.map(({ tag }) => tag);
}

export function migrationStatements(engine: Engine, tag: string): readonly string[] {
  return readFileSync(join(migrationsFolder(engine), `${tag}.sql`), "utf8").split(
    "--> statement-breakpoint",
  );
}

/** The objects of the PostgreSQL schema after all migrations, as `objectLines` tells them. A test makes the file again. */
export function expectedObjects(): readonly string[] {
  const path = join(migrationsFolder("postgres"), "objects.txt");
  return readFileSync(path, "utf8").trimEnd().split("\n");
}
