import { Database } from "bun:sqlite";
import { migrate } from "./migrations.ts";

/** A table, index, trigger or view, and the statement that made it. */
interface SchemaObject {
  type: string;
  name: string;
  sql: string | null;
}

/**
 * What a store of this version's schema lacks or has otherwise: its tables and triggers are the rules that
 * SQLite enforces. Tables and indexes of somebody else do no harm; a trigger could change what is booked.
 */
export function schemaProblems(sqlite: Database): string[] {
  const found = objectsOf(sqlite);
  const expected = objectsOf(freshStore());
  const missing = [...expected.values()].filter(({ name, sql }) => found.get(name)?.sql !== sql);
  const foreign = [...found.values()].filter(
    ({ type, name }) => type === "trigger" && !expected.has(name),
  );
  return [
    ...missing.map(({ type, name }) => `${type} ${name} is missing or not the program's own`),
    ...foreign.map(({ name }) => `trigger ${name} is not the program's own`),
  ];
}

function freshStore(): Database {
  const sqlite = new Database(":memory:", { safeIntegers: true, strict: true });
  migrate({ sqlite }, () => true);
  return sqlite;
}

function objectsOf(sqlite: Database): Map<string, SchemaObject> {
  const objects = sqlite.query<SchemaObject, []>("SELECT type, name, sql FROM sqlite_schema").all();
  return new Map(objects.map((object) => [object.name, object]));
}
