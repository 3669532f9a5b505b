import { Database } from "bun:sqlite";
import { sha256 } from "../../lib/sha256.ts";
import { applyMigrations } from "./migrations.ts";

/** A table, index, trigger or view, and the statement that made it. */
interface SchemaObject {
  type: string;
  name: string;
  /** The table that an index or a trigger belongs to. */
  table: string;
  sql: string | null;
}

/** The SHA-256, in hex, of what a store of this version's schema has in it and nothing else. Its test says what it must be. */
export const SCHEMA_SHA256 = "3c54775c89ecebec2d4a0448f8fcdd36644e01da802cbdbf6e3adf1150f4a8dc";

/** The same of any store. */
export function schemaSha256(sqlite: Database): string {
  return sha256Of(objectsOf(sqlite));
}

/**
 * What a store of this version's schema lacks or has otherwise: its tables and triggers are the rules that
 * SQLite enforces. Tables of somebody else, and what belongs to them, do no harm. A trigger on a table of these could
 * change what is booked, and an index refuse it: by an expression that fails or takes long, or by being unique.
 * Every start asks: only a store that does not look just so is compared with one that is made for it, which takes 5 ms.
 * `applied`: asked of a store of an earlier version, which has seen that many migrations.
 */
export function schemaProblems(sqlite: Database, applied?: number): string[] {
  const found = objectsOf(sqlite);
  if (sha256Of(found) === SCHEMA_SHA256 && applied === undefined) return [];
  const expected = expectedObjects(applied);
  const missing = [...expected.values()].filter(({ name, sql }) => found.get(name)?.sql !== sql);
  const foreign = [...found.values()].filter(
    (object) => !expected.has(object.name) && expected.has(object.table) && hasSay(sqlite, object),
  );
  return [
    ...missing.map(({ type, name }) => `${type} ${name} is missing or not the program's own`),
    ...foreign.map(({ type, name }) => `${type} ${name} is not the program's own: drop it`),
  ];
}

/** Whether it has a say in what is booked: a trigger has, and an index but for the plainest, which only makes reads quicker. */
function hasSay(sqlite: Database, { type, name, table }: SchemaObject): boolean {
  if (type !== "index") return type === "trigger";
  const isPlain = sqlite
    .query(`SELECT 1 FROM pragma_index_list(?) WHERE name = ? AND "unique" = 0 AND partial = 0`)
    .get(table, name);
  const isOdd = sqlite
    .query(
      "SELECT 1 FROM pragma_index_xinfo(?) WHERE cid = -2 OR coll NOT IN ('BINARY', 'NOCASE', 'RTRIM')",
    )
    .get(name);
  return isPlain === null || isOdd !== null;
}

/** Those of a store that is made anew. */
function expectedObjects(applied: number | undefined): Map<string, SchemaObject> {
  const sqlite = new Database(":memory:", { safeIntegers: true, strict: true });
  try {
    applyMigrations(sqlite, 0, applied);
    return objectsOf(sqlite);
  } finally {
    sqlite.close();
  }
}

function objectsOf(sqlite: Database): Map<string, SchemaObject> {
  // By their names: a copy, and an index that is made anew, have another order.
  const objects = sqlite
    .query<SchemaObject, []>(
      'SELECT type, name, tbl_name AS "table", sql FROM sqlite_schema ORDER BY name',
    )
    .all();
  return new Map(objects.map((object) => [object.name, object]));
}

function sha256Of(objects: ReadonlyMap<string, SchemaObject>): string {
  const rows = [...objects.values()].map(({ type, name, sql }) => [type, name, sql]);
  return Buffer.from(sha256(JSON.stringify(rows))).toString("hex");
}
