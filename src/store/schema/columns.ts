import { sql, type Placeholder, type SQL } from "drizzle-orm";
import { customType } from "drizzle-orm/sqlite-core";

/**
 * The connection reads every INTEGER as a bigint (safeIntegers), because a plain read rounds above
 * 2^53. These three column types say what each one is meant to be in code.
 */
export const nano = customType<{ data: bigint; driverData: bigint }>({
  dataType: () => "integer",
  fromDriver: BigInt,
});
export const count = customType<{ data: number; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: Number,
});
export const flag = customType<{ data: boolean; driverData: bigint | number }>({
  dataType: () => "integer",
  // As SQLite has it: whatever is not 0 is true.
  fromDriver: (value) => Number(value) !== 0,
  toDriver: (value) => (value ? 1 : 0),
});

/** The value of an `id` that SQLite is to assign. */
export const newRowId = sql`NULL`;

/**
 * A placeholder for a query over several tables. SQLite 3.54 plans such a query anew at every run if
 * a column is compared with a bare one, whose value might lead to a better plan: 4 to 13 us instead
 * of 1. Behind a sign it is out of the planner's sight, and an index is used all the same.
 */
export function plannedOnce(name: string): SQL {
  return sql`+${sql.placeholder(name)}`;
}

/** A placeholder for each column of a row, by the column's own name. */
export function placeholders<Name extends string>(
  ...names: Name[]
): Record<Name, Placeholder<Name>> {
  const entries = names.map((name) => [name, sql.placeholder(name)]);
  return Object.fromEntries(entries) as Record<Name, Placeholder<Name>>;
}
