import { Database } from "bun:sqlite";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const drizzleFolder = join(import.meta.dir, "../../../drizzle/sqlite");
const FIRST_VERSION = 2;

/** Makes a database of the first version: no totals, no refunds, nothing folded. `work` fills it. */
export function makeFirstVersion(path: string, work: (sqlite: Database) => void): void {
  makeEarlierVersion(path, FIRST_VERSION, work);
}

/** The same with this number of migrations applied. */
export function makeEarlierVersion(
  path: string,
  version: number,
  work: (sqlite: Database) => void,
): void {
  const sqlite = new Database(path, { create: true, readwrite: true });
  const files = readdirSync(drizzleFolder).filter((name) => name.endsWith(".sql"));
  for (const file of files.toSorted().slice(0, version)) {
    const text = readFileSync(join(drizzleFolder, file), "utf8");
    for (const statement of text.split("--> statement-breakpoint")) sqlite.run(statement);
  }
  sqlite.run(`PRAGMA user_version = ${version}`);
  work(sqlite);
  sqlite.close();
}
