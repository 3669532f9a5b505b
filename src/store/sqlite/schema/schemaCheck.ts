import { Database } from "bun:sqlite";
import { sha256 } from "../../../lib/sha256.ts";
import { applyMigrations } from "./migrations.ts";

/** A table, index, trigger or view. */
interface SchemaObject {
  type: string;
  name: string;
  /** The table of an index or a trigger. */
  table: string;
  sql: string | null;
}

/** The SHA-256, in hex, of a database with this version's schema and nothing else. A test computes it. */
export const SCHEMA_SHA256 = "5b9f7638dbc44a27096cfe54d503c783eed9f12594f9503ac7b53f9126036d33";

export function schemaSha256(sqlite: Database): string {
  return sha256Of(readSchema(sqlite));
}

/**
 * Compares the schema with the one that the migrations create, because its constraints and triggers enforce the money
 * rules. A line for each object that is missing or different, and for each foreign trigger or index that can change or
 * refuse a write. Other foreign objects are allowed. A start takes the fast way, the checksum; a comparison takes 5 ms.
 * `applied`: the number of the schema, for a database of an earlier version.
 */
export function schemaProblems(sqlite: Database, applied?: number): string[] {
  const found = readSchema(sqlite);
  if (applied === undefined && sha256Of(found) === SCHEMA_SHA256) return [];
  const expected = expectedSchema(applied);
  const missing = [...expected.values()].filter(({ name, sql }) => found.get(name)?.sql !== sql);
  const foreign = [...found.values()].filter(
    (object) =>
      !expected.has(object.name) && expected.has(object.table) && affectsWrites(sqlite, object),
  );
  return [
    ...missing.map(({ type, name }) => `${type} ${name} is missing or not the program's own`),
    ...foreign.map(({ type, name }) => `${type} ${name} is not the program's own: drop it`),
  ];
}

/** True for triggers, and for indexes that can refuse a row: unique, partial, by an expression, of a foreign collation. */
function affectsWrites(sqlite: Database, { type, name, table }: SchemaObject): boolean {
  if (type !== "index") return type === "trigger";
  const isPlain = sqlite
    .query(`SELECT 1 FROM pragma_index_list(?) WHERE name = ? AND "unique" = 0 AND partial = 0`)
    .get(table, name);
  const hasExpression = sqlite
    .query(
      "SELECT 1 FROM pragma_index_xinfo(?) WHERE cid = -2 OR coll NOT IN ('BINARY', 'NOCASE', 'RTRIM')",
    )
    .get(name);
  return isPlain === null || hasExpression !== null;
}

function expectedSchema(applied: number | undefined): Map<string, SchemaObject> {
  const sqlite = new Database(":memory:", { safeIntegers: true, strict: true });
  try {
    applyMigrations(sqlite, 0, applied);
    return readSchema(sqlite);
  } finally {
    sqlite.close();
  }
}

function readSchema(sqlite: Database): Map<string, SchemaObject> {
  // By name: the order differs in a copy.
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
