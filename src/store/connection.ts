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
 * A connection to the database, for reads and for the changes of commands. The text of a query is in the common
 * language of both engines; `dialect` has the words that differ. Integers in rows are bigints. A read may run again
 * after a lost connection to a server; a change does not.
 */
export interface Connection {
  readonly dialect: Dialect;
  readonly paths: AccessPaths;
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
  /** Reads rows as arrays whose integers are numbers, in half the time on SQLite. For values below 2^53 only. */
  plainRows<Row extends readonly unknown[]>(text: string): Promise<Row[]>;
  /** Runs a change of text, with the rows that it returns. */
  change<Row>(text: string, values?: Values): Promise<Row[]>;
  /** Visits the rows one by one. The memory does not grow with their number. Only within `inSnapshot`. */
  forEach<Row>(text: string, values: Values, visit: Visit<Row>): Promise<void>;
  /** Runs reads on one state of the database. `work` must not use another connection. */
  inSnapshot<Result>(work: Work<Result>): Promise<Result>;
  /**
   * Runs a change of a command in a transaction. These transactions run one after the other. Within a transaction the
   * change is a part of it. `work` must not use another connection: on SQLite it would wait for itself.
   */
  inTransaction<Result>(work: Work<Result>): Promise<Result>;
}

/** The words in which the SQL of the engines differs. Texts are parts of queries. */
export interface Dialect {
  readonly engine: "sqlite" | "postgres";
  /** The value of an `id` that the engine assigns. */
  readonly newRowId: SQL;
  /** Follows a query: no other transaction changes its rows until this transaction has ended. */
  readonly lockingRows: string;
  /** Whether a column has one of the numbers in a JSON array. */
  readonly isIn: (column: SQL, json: SQL) => SQL;
  /** The smaller of two values that are not NULL. */
  readonly lesser: (one: string, other: string) => string;
  /** Whether a text contains another one. */
  readonly contains: (text: SQL, part: SQL) => SQL;
}

/** How an engine finds rows where its planner would choose a longer way. Texts are parts of queries. */
export interface AccessPaths {
  /** Follows FROM: the requests of a span of time by the index of times, also if `condition` names an account. */
  readonly requestsAt: (span: TimeSpan, condition: string) => string;
  /** Requests in the order of their row ids: of `$accountId`, with a `$status` other than `done`, or both. */
  readonly requestsById: (of: {
    readonly ofAccount: boolean;
    readonly ofStatus: boolean;
  }) => RequestsById;
  /** Follows FROM: a table that is read as a whole, in the order of the file. */
  readonly wholeTable: (name: string) => string;
}

/** Conditions that have an index. A query with these conditions compares and orders its rows by `id` and `at`. */
export interface RequestsById {
  readonly conditions: readonly string[];
  readonly id: string;
  readonly at: string;
}

/** Milliseconds since 1970; `to` exclusive. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** Tells whether keys, accounts or ledger were changed by another process. */
export interface ChangeCounter {
  /** Reads a number that grows with each change. Call it for each request that arrives. */
  read(): number;
  /** The number that was read last in this turn of the event loop. Reads it if this turn has not read it. */
  current(): number;
}
