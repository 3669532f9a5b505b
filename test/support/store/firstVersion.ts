import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const drizzleFolder = join(import.meta.dir, "../../../drizzle");

/** Makes a database of the first version: no totals, no refunds, nothing folded. `work` fills it. */
export function makeFirstVersion(path: string, work: (sqlite: Database) => void): void {
  const sqlite = new Database(path, { create: true, readwrite: true });
  for (const tag of ["0000_tables", "0001_triggers"]) {
    const text = readFileSync(join(drizzleFolder, `${tag}.sql`), "utf8");
    for (const statement of text.split("--> statement-breakpoint")) sqlite.run(statement);
  }
  sqlite.run("PRAGMA user_version = 2");
  work(sqlite);
  sqlite.close();
}
