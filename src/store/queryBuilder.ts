import { DrizzleQueryError } from "drizzle-orm";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import type { PlainQuery, PreparedQuery, QueryWithPlaceholders, RowsQuery } from "./connection.ts";

/**
 * Queries that Drizzle builds. Both engines use its builder for SQLite, because the tables are declared for SQLite. The texts
 * of that builder are in the common language of both engines, and `send` is what differs.
 */
export abstract class QueryBuilder {
  readonly db = drizzle(async (text, values: unknown[], method) => ({
    rows: await this.send(text, values, method === "run"),
  }));

  /** Sends a text with `?` for each value. Resolves with the rows as arrays. `isChange`: it is a change without rows. */
  abstract send(text: string, values: unknown[], isChange: boolean): Promise<unknown[]>;

  all<Row>(query: RowsQuery<Row>): Promise<Row[]> {
    return withoutValues(query.all());
  }

  async first<Row>(query: RowsQuery<Row>): Promise<Row | undefined> {
    return (await this.all(query))[0];
  }

  async run(query: PlainQuery): Promise<void> {
    await withoutValues(query.run());
  }

  prepare<Row>(query: QueryWithPlaceholders<Row>): PreparedQuery<Row> {
    const prepared = query.prepare();
    const all: PreparedQuery<Row>["all"] = (values) => withoutValues(prepared.all(values));
    return { all, first: async (values) => (await all(values))[0] };
  }
}

/** Drizzle's own error has the values of the query in its text. */
async function withoutValues<Result>(query: Promise<Result>): Promise<Result> {
  try {
    return await query;
  } catch (error) {
    throw error instanceof DrizzleQueryError && error.cause !== undefined ? error.cause : error;
  }
}
