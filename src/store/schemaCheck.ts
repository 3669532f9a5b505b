import { Database } from "bun:sqlite";
import { migrate } from "./migrations.ts";

/** A table, index, trigger or view, and the statement that made it. */
interface SchemaObject {
  type: string;
  name: string;
  /** The table that an index or a trigger belongs to. */
  table: string;
  sql: string | null;
}

/**
 * What a store of this version's schema lacks or has otherwise: its tables and triggers are the rules that
 * SQLite enforces. Tables of somebody else, and what belongs to them, do no harm. A trigger could change what is
 * booked, and so could an index on a table of these refuse it: by an expression that fails, takes long, or is unique.
 */
export function schemaProblems(sqlite: Database): string[] {
  const found = objectsOf(sqlite);
  const expected = objectsOf(freshStore());
  const missing = [...expected.values()].filter(({ name, sql }) => found.get(name)?.sql !== sql);
  const foreign = [...found.values()].filter(
    ({ type, name, table }) =>
      !expected.has(name) && (type === "trigger" || (type === "index" && expected.has(table))),
  );
  return [
    ...missing.map(({ type, name }) => `${type} ${name} is missing or not the program's own`),
    ...foreign.map(({ type, name }) => `${type} ${name} is not the program's own`),
  ];
}

function freshStore(): Database {
  const sqlite = new Database(":memory:", { safeIntegers: true, strict: true });
  migrate({ sqlite }, () => true);
  return sqlite;
}

function objectsOf(sqlite: Database): Map<string, SchemaObject> {
  const objects = sqlite
    .query<SchemaObject, []>('SELECT type, name, tbl_name AS "table", sql FROM sqlite_schema')
    .all();
  return new Map(objects.map((object) => [object.name, object]));
}
