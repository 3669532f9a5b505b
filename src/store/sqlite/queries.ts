import type { Database, SQLQueryBindings, Statement } from "bun:sqlite";
import { sql } from "drizzle-orm";
import { drizzle, type BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
import type {
  Connection,
  Dialect,
  PlainQuery,
  PreparedQuery,
  QueryWithPlaceholders,
  RowsQuery,
  Values,
  Visit,
} from "../connection.ts";
import { newRowId } from "../schema/schema.ts";
import { doNow, type Steps } from "../steps.ts";

const sqliteDialect: Dialect = {
  engine: "sqlite",
  newRowId,
  // A transaction that writes is the only one.
  lockingRows: "",
  // SQLite 3.54 plans a query over several tables again at each run if a column is compared with a plain placeholder: 4 to
  // 13 us instead of 1. The sign hides the placeholder from the planner. The index is used all the same.
  plannedOnce: (name) => sql`+${sql.placeholder(name)}`,
  withoutIndexOf: (column) => sql`+${column}`,
  using: (index) => `INDEXED BY ${index}`,
  idBesideIndex: "id",
  accountOfList: "account_id",
  withoutIndex: "NOT INDEXED",
  joinInOrder: "CROSS JOIN",
  isIn: (column, json) => sql`${column} IN (SELECT value FROM json_each(${json}))`,
  lesser: (one, other) => `min(${one}, ${other})`,
  // SQLite's `lower` changes ASCII only.
  contains: (text, part) => sql`instr(lower(${text}), lower(${part})) > 0`,
};

/** Queries on a SQLite connection that reads integers as bigints. Their steps wait for nothing. */
export class SqliteQueries implements Connection {
  readonly dialect = sqliteDialect;
  readonly db: BunSQLiteDatabase;
  readonly #sqlite: Database;

  constructor(sqlite: Database) {
    this.#sqlite = sqlite;
    this.db = drizzle({ client: sqlite });
  }

  all<Row>(query: RowsQuery<Row>): Steps<Row[]> {
    return doNow(() => query.all());
  }

  first<Row>(query: RowsQuery<Row>): Steps<Row | undefined> {
    return doNow(() => query.all()[0]);
  }

  run(query: PlainQuery): Steps<void> {
    return doNow(() => {
      query.run();
    });
  }

  prepare<Row>(query: QueryWithPlaceholders<Row>): PreparedQuery<Row> {
    const prepared = query.prepare();
    return {
      all: (values) => doNow(() => prepared.all(values)),
      first: (values) => doNow(() => prepared.all(values)[0]),
    };
  }

  rows<Row>(text: string, values: Values = {}): Steps<Row[]> {
    return doNow(() => this.#prepared<Row>(text).all(bindingsOf(values)));
  }

  row<Row>(text: string, values: Values = {}): Steps<Row | undefined> {
    return doNow(() => this.#prepared<Row>(text).get(bindingsOf(values)) ?? undefined);
  }

  plainRows<Row extends readonly unknown[]>(text: string): Steps<Row[]> {
    return doNow(() => {
      const statement = this.#sqlite.prepare<unknown, []>(text);
      try {
        return statement.safeIntegers(false).values() as unknown as Row[];
      } finally {
        statement.finalize();
      }
    });
  }

  forEach<Row>(text: string, values: Values, visit: Visit<Row>): Steps<void> {
    return doNow(() => {
      for (const row of this.#prepared<Row>(text).iterate(bindingsOf(values))) visit(row);
    });
  }

  *inSnapshot<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    return yield* this.#within("BEGIN", work);
  }

  *inTransaction<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    return yield* this.#within("BEGIN IMMEDIATE", work);
  }

  /** Bun keeps the statements of the 20 texts that were used last. */
  #prepared<Row>(text: string): Statement<Row, SQLQueryBindings[]> {
    return this.#sqlite.query<Row, SQLQueryBindings[]>(text);
  }

  *#within<Result>(
    begin: "BEGIN" | "BEGIN IMMEDIATE",
    work: (connection: Connection) => Steps<Result>,
  ): Steps<Result> {
    const sqlite = this.#sqlite;
    if (sqlite.inTransaction) return yield* work(this);
    sqlite.run(begin);
    try {
      const result = yield* work(this);
      sqlite.run("COMMIT");
      return result;
    } catch (error) {
      // SQLite itself rolls back after some errors.
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      throw error;
    }
  }
}

function bindingsOf(values: Values): SQLQueryBindings {
  return values;
}
