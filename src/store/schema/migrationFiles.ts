import { readFileSync } from "node:fs";
import { join } from "node:path";

/** What a store is made on. Each has a folder of migrations. */
export type Engine = "sqlite" | "postgres";

/**
 * The executable embeds the SQL files beside its entry point. `import.meta.dir` is the root there, or in a Worker a
 * folder three levels below.
 */
function migrationsFolder(engine: Engine): string {
  if (!Bun.isStandaloneExecutable) return join(import.meta.dir, "../../../drizzle", engine);
  return join(import.meta.dir, Bun.isMainThread ? "drizzle" : "../../../drizzle", engine);
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
