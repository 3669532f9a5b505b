import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What a store is made on. Each has a folder of migrations. */
export type Engine = "sqlite" | "postgres";

/** What an upgrade of a database does. */
export interface UpgradePlan {
  /** The number of migrations that the database has; 0 if it is empty or does not exist. */
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

/** In the order of drizzle-kit's journal. Drizzle's own reader also hashes the files, which takes 10 ms of each start. */
export function migrationTags(engine: Engine): readonly string[] {
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
