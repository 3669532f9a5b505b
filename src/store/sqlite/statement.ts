import type { Changes, SQLQueryBindings } from "bun:sqlite";
import { Param, Placeholder, is } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import type { SqliteConnection } from "./sqlite.ts";

/** A query of Drizzle, whose values are all placeholders. */
interface BuiltQuery {
  toSQL(): { sql: string; params: unknown[] };
}

/** A value is bound as it is: a boolean is 0 or 1, an amount may be a bigint, a number or decimal digits. */
type Values = Readonly<Record<string, SQLQueryBindings | undefined>>;

interface NamedStatement<Row> {
  run(values: Values): Changes;
  get(values: Values): Row | null;
}

/**
 * Prepares Drizzle's SQL once, so that a run needs no query builder. It takes the values of its placeholders by their names,
 * and throws if one is missing. The columns of a row have their names in the database.
 */
export function prepareStatement<Row>(
  { sqlite }: SqliteConnection,
  query: BuiltQuery,
): NamedStatement<Row> {
  const { sql, params } = query.toSQL();
  const names = params.map(placeholderName);
  const statement = sqlite.prepare<Row, SQLQueryBindings[]>(sql);
  const bound = (values: Values) =>
    names.map((name) => {
      const value = values[name];
      assert(value !== undefined, "a statement has all of its values");
      return value;
    });
  return {
    run: (values) => statement.run(...bound(values)),
    get: (values) => statement.get(...bound(values)),
  };
}

function placeholderName(param: unknown): string {
  const value: unknown = is(param, Param) ? param.value : param;
  assert(is(value, Placeholder), "a statement has a value that is no placeholder");
  return value.name;
}
