import type { SQL } from "drizzle-orm";
import type { SqliteRemoteDatabase } from "drizzle-orm/sqlite-proxy";

/** The values of a query's `$names`. A boolean is 1 or 0. */
export type Values = Readonly<
  Record<string, string | number | bigint | boolean | Uint8Array | null>
>;

/** Gets each row. */
export type Visit<Row> = (row: Row) => void;

/** A query that Drizzle has built, with rows. */
export interface RowsQuery<Row> {
  all(): Promise<Row[]>;
}

/** A query that Drizzle has built, without rows. */
export interface PlainQuery {
  run(): Promise<unknown>;
}

/** A query that Drizzle has built from placeholders. */
export interface QueryWithPlaceholders<Row> {
  prepare(): { all(values?: Record<string, unknown>): Promise<Row[]> };
}

/** A query that is built once. */
export interface PreparedQuery<Row> {
  all(values?: Readonly<Record<string, unknown>>): Promise<Row[]>;
  first(values?: Readonly<Record<string, unknown>>): Promise<Row | undefined>;
}

/** Several queries on the connection that they get. They wait for nothing but this connection. */
export type Work<Result> = (connection: Connection) => Promise<Result>;

/** Long work calls it between two reads. What it throws ends the work. */
export type Pause = () => Promise<void>;

/**
 * One way to the database, for reads and for the changes of commands. Queries that are text are in the common language
 * of both engines; `dialect` has the words that differ. Integers are bigints in their rows. A read may run again after a
 * lost connection to a server; a change does not.
 */
export interface Connection {
  readonly dialect: Dialect;
  /** Builds queries from the tables of `schema/schema.ts`. The functions of this connection run them. */
  readonly db: SqliteRemoteDatabase;
  all<Row>(query: RowsQuery<Row>): Promise<Row[]>;
  first<Row>(query: RowsQuery<Row>): Promise<Row | undefined>;
  /** Runs a change. */
  run(query: PlainQuery): Promise<void>;
  prepare<Row>(query: QueryWithPlaceholders<Row>): PreparedQuery<Row>;
  /** Runs a read of text. */
  rows<Row>(text: string, values?: Values): Promise<Row[]>;
  row<Row>(text: string, values?: Values): Promise<Row | undefined>;
  /** Rows as arrays whose integers are numbers: on SQLite half the time. For values below 2^53 only. */
  plainRows<Row extends readonly unknown[]>(text: string): Promise<Row[]>;
  /** Runs a change of text, with the rows that it returns. */
  change<Row>(text: string, values?: Values): Promise<Row[]>;
  /** Visits the rows one by one. The memory does not grow with their number. Only within `inSnapshot`. */
  forEach<Row>(text: string, values: Values, visit: Visit<Row>): Promise<void>;
  /** Runs reads on one state of the database. `work` must not use another connection. */
  inSnapshot<Result>(work: Work<Result>): Promise<Result>;
  /**
   * Runs a change of a command in a transaction: whole or not at all, and one after the other. Within a transaction it joins
   * that one. `work` must not use another connection: on SQLite it would wait for itself.
   */
  inTransaction<Result>(work: Work<Result>): Promise<Result>;
}

/** How the engines say the same differently. Texts are parts of queries. */
export interface Dialect {
  readonly engine: "sqlite" | "postgres";
  /** The value of an `id` that the engine assigns. */
  readonly newRowId: SQL;
  /** Behind a query: no other transaction changes the rows until this one has ended. */
  readonly lockingRows: string;
  /** A placeholder for a query over several tables that is run often. */
  readonly plannedOnce: (name: string) => SQL;
  /** A column whose index is not used. */
  readonly withoutIndexOf: (column: SQL) => SQL;
  /** Behind a table: the index to use. PostgreSQL chooses by itself. */
  readonly using: (index: string) => string;
  /** The row id in a query that finds its rows by another index. Else PostgreSQL may read all rows by their ids. */
  readonly idBesideIndex: string;
  /** The account in a query that finds its rows by `requests_account`. */
  readonly accountOfList: string;
  /** Behind a table: to be read in the order of the file. */
  readonly withoutIndex: string;
  /** A join of the tables in this order. Its condition follows. */
  readonly joinInOrder: string;
  /** Whether a column has one of the numbers in a JSON array. */
  readonly isIn: (column: SQL, json: SQL) => SQL;
  /** The smaller of two values that are not NULL. */
  readonly lesser: (one: string, other: string) => string;
  /** Whether a text contains another one. */
  readonly contains: (text: SQL, part: SQL) => SQL;
}

/** Tells whether keys, accounts or ledger were changed by another process. */
export interface ChangeCounter {
  /** Reads a number that grows with each change. Call it for each request that arrives. */
  read(): number;
  /** The number that was read last in this turn of the event loop. Reads it if this turn has not read it. */
  current(): number;
}
