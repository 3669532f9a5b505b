import type { Database, SQLQueryBindings, Statement } from "bun:sqlite";
import { sql } from "drizzle-orm";
import type { AccessPaths, Connection, Dialect, Values, Visit, Work } from "../connection.ts";
import { QueryBuilder } from "../queryBuilder.ts";
import { newRowId } from "../schema/schema.ts";

const sqliteDialect: Dialect = {
  engine: "sqlite",
  newRowId,
  // A transaction that writes is the only one.
  lockingRows: "",
  isIn: (column, json) => sql`${column} IN (SELECT value FROM json_each(${json}))`,
  lesser: (one, other) => `min(${one}, ${other})`,
  // SQLite's `lower` changes ASCII only.
  contains: (text, part) => sql`instr(lower(${text}), lower(${part})) > 0`,
};

/** SQLite has no statistics of these tables. So it prefers an index for equal values to an index for a range. */
const sqlitePaths: AccessPaths = {
  requestsAt: ({ from, to }, condition) =>
    `requests INDEXED BY requests_at WHERE at >= ${from} AND at < ${to} AND ${condition}`,
  requestsById: ({ ofAccount, ofStatus }) => ({
    conditions: [
      ...(ofStatus ? ["status = $status AND status <> 'done'"] : []),
      ...(ofAccount ? ["account_id = $accountId"] : []),
    ],
    id: "id",
    at: "at",
  }),
  // By an index, in the order of the sum or the sort, each row would be at another place of the file.
  wholeTable: (name) => `${name} NOT INDEXED`,
};

/** Queries within a transaction that is open on a SQLite connection. They run within the call. */
export class SqliteTransaction extends QueryBuilder implements Connection {
  readonly dialect = sqliteDialect;
  readonly paths = sqlitePaths;
  protected readonly sqlite: Database;

  /** The connection reads integers as bigints. */
  constructor(sqlite: Database) {
    super();
    this.sqlite = sqlite;
  }

  /** Runs a query as soon as this connection may. */
  protected async inTurn<Result>(query: () => Result): Promise<Result> {
    return query();
  }

  override send(text: string, values: SQLQueryBindings[]): Promise<unknown[]> {
    return this.inTurn(() => this.sqlite.query(text).values(...values));
  }

  rows<Row>(text: string, values: Values = {}): Promise<Row[]> {
    return this.inTurn(() => this.#prepared<Row>(text).all(bindingsOf(values)));
  }

  row<Row>(text: string, values: Values = {}): Promise<Row | undefined> {
    return this.inTurn(() => this.#prepared<Row>(text).get(bindingsOf(values)) ?? undefined);
  }

  change<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.rows(text, values);
  }

  plainRows<Row extends readonly unknown[]>(text: string): Promise<Row[]> {
    return this.inTurn(() => {
      const statement = this.sqlite.prepare<unknown, []>(text);
      try {
        return statement.safeIntegers(false).values() as unknown as Row[];
      } finally {
        statement.finalize();
      }
    });
  }

  forEach<Row>(text: string, values: Values, visit: Visit<Row>): Promise<void> {
    return this.inTurn(() => {
      for (const row of this.#prepared<Row>(text).iterate(bindingsOf(values))) visit(row);
    });
  }

  inSnapshot<Result>(work: Work<Result>): Promise<Result> {
    return work(this);
  }

  inTransaction<Result>(work: Work<Result>): Promise<Result> {
    return work(this);
  }

  /** Bun keeps the statements of the 20 texts that were used last. */
  #prepared<Row>(text: string): Statement<Row, SQLQueryBindings[]> {
    return this.sqlite.query<Row, SQLQueryBindings[]>(text);
  }
}

/** The open transactions of this thread, by the name of the file. */
const transactions = new Map<string, Promise<void>>();

/**
 * Queries on a SQLite connection. While a transaction is open, all other queries of this thread on the file wait, also
 * those of another connection: SQLite would block the thread until the lock is free, and the transaction could never
 * commit. A transaction waits for nothing but SQLite, so no timer and no socket comes in between.
 */
export class SqliteQueries extends SqliteTransaction {
  protected override async inTurn<Result>(query: () => Result): Promise<Result> {
    while (this.#open !== undefined) await this.#open;
    return query();
  }

  override inSnapshot<Result>(work: Work<Result>): Promise<Result> {
    return this.#alone("BEGIN", work);
  }

  override inTransaction<Result>(work: Work<Result>): Promise<Result> {
    return this.#alone("BEGIN IMMEDIATE", work);
  }

  async #alone<Result>(begin: string, work: Work<Result>): Promise<Result> {
    while (this.#open !== undefined) await this.#open;
    const { sqlite } = this;
    const ended = Promise.withResolvers<void>();
    transactions.set(sqlite.filename, ended.promise);
    try {
      sqlite.run(begin);
      const result = await work(new SqliteTransaction(sqlite));
      sqlite.run("COMMIT");
      return result;
    } catch (error) {
      // SQLite itself rolls back after some errors.
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      throw error;
    } finally {
      transactions.delete(sqlite.filename);
      ended.resolve();
    }
  }

  /** The open transaction on this file. */
  get #open(): Promise<void> | undefined {
    return transactions.get(this.sqlite.filename);
  }
}

function bindingsOf(values: Values): SQLQueryBindings {
  return values;
}
