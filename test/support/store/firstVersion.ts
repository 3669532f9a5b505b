import { Database } from "bun:sqlite";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { upgradeStore, type UpgradeStep } from "../../../src/store/store.ts";

const drizzleFolder = join(import.meta.dir, "../../../drizzle/sqlite");
const FIRST_VERSION = 2;

/** Makes a database of the first version: no totals, no refunds, nothing folded. `work` fills it. */
export function makeFirstVersion(path: string, work: (sqlite: Database) => void): void {
  makeEarlierVersion(path, FIRST_VERSION, work);
}

/**
 * The same with this number of migrations applied. The triggers of the first version came with its second migration: a
 * database with one migration has the same records and no triggers.
 */
export function makeEarlierVersion(
  path: string,
  version: number,
  work: (sqlite: Database) => void,
): void {
  const sqlite = new Database(path, { create: true, readwrite: true });
  const files = readdirSync(drizzleFolder).filter((name) => name.endsWith(".sql"));
  for (const file of files.toSorted().slice(0, Math.max(version, FIRST_VERSION))) {
    const text = readFileSync(join(drizzleFolder, file), "utf8");
    for (const statement of text.split("--> statement-breakpoint")) sqlite.run(statement);
  }
  work(sqlite);
  if (version < FIRST_VERSION) dropTriggers(sqlite);
  sqlite.run(`PRAGMA user_version = ${version}`);
  sqlite.close();
}

function dropTriggers(sqlite: Database): void {
  const triggers = sqlite
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    .all();
  for (const { name } of triggers) sqlite.run(`DROP TRIGGER "${name}"`);
}

/** Upgrades a database as a gateway does, without a backup. */
export async function upgrade(
  path: string,
  onStep: (step: UpgradeStep) => void = () => undefined,
): Promise<void> {
  const stopped = new Promise<void>(() => undefined);
  await upgradeStore({
    path,
    durability: "process",
    serving: true,
    wantsBackup: false,
    stopped,
    onStep,
  });
}
