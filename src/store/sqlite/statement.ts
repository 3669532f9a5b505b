import type { SQLQueryBindings, Statement } from "bun:sqlite";
import { Param, Placeholder, is } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import type { SqliteConnection } from "./sqlite.ts";

/** A query of Drizzle, whose values are all placeholders. */
interface BuiltQuery {
  toSQL(): { sql: string; params: unknown[] };
}

/**
 * Prepares Drizzle's SQL once, so that a run needs no query builder. `names` are the placeholders in the order in which
 * the caller passes their values: a wrong order is a bug and throws here. A value is bound as it is: a boolean is 0 or 1,
 * an amount may be a bigint, a number or decimal digits. The columns of a row have their names in the database.
 */
export function prepareStatement<Row>(
  { sqlite }: SqliteConnection,
  query: BuiltQuery,
  names: readonly string[],
): Statement<Row, SQLQueryBindings[]> {
  const { sql, params } = query.toSQL();
  const found = params.map(placeholderName);
  assert(
    found.length === names.length && found.every((name, index) => name === names[index]),
    `the placeholders of a statement are ${found.join(", ")}`,
  );
  return sqlite.prepare<Row, SQLQueryBindings[]>(sql);
}

function placeholderName(param: unknown): string {
  const value: unknown = is(param, Param) ? param.value : param;
  assert(is(value, Placeholder), "a statement has a value that is no placeholder");
  return value.name;
}
