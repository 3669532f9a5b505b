import type { ReservedSQL, SQL as Client } from "bun";
import { DrizzleQueryError, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/bun-sql";
import type { BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
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
import { assert } from "../../lib/assert.ts";
import { waitFor, type Steps } from "../steps.ts";
import { LOCKS } from "./locks.ts";
import { isConnectionLoss, type PostgresPool } from "./pool.ts";
import { CONFLICT_TRIES, isConflict } from "./writer/failures.ts";

const postgresDialect: Dialect = {
  engine: "postgres",
  newRowId: sql`DEFAULT`,
  lockingRows: "FOR NO KEY UPDATE",
  plannedOnce: (name) => sql`${sql.placeholder(name)}`,
  withoutIndexOf: (column) => column,
  using: () => "",
  idBesideIndex: "+id",
  // As in the index: postgres/schema/schema.ts.
  accountOfList: "+account_id",
  withoutIndex: "",
  joinInOrder: "JOIN",
  isIn: (column, json) =>
    sql`${column} = ANY(ARRAY(SELECT jsonb_array_elements_text(${json}::text::jsonb)::bigint))`,
  lesser: (one, other) => `least(${one}, ${other})`,
  // With this collation `lower` changes ASCII only, as in SQLite.
  contains: (text, part) =>
    sql`strpos(lower(${text} COLLATE "C"), lower(${part}::text COLLATE "C")) > 0`,
};

/** What sends queries: a pool, or the connection of a transaction. */
interface Sender {
  unsafe(
    text: string,
    values?: unknown[],
  ): PromiseLike<unknown> & { values(): PromiseLike<unknown> };
}

/**
 * A settle has an account for some milliseconds. A command that stands still for longer loses its transaction: replicas wait
 * for its locks.
 */
const COMMAND_LIMITS = `SELECT set_config('lock_timeout', '5s', true),
  set_config('idle_in_transaction_session_timeout', '5s', true)`;
const LOOK_AGAIN_MS = 100;
const LOOK_WITHIN_MS = 10_000;
const ROWS_PER_FETCH = 5000;

/** What Drizzle's builders for PostgreSQL have. */
interface Built {
  readonly session: unknown;
}

/** Queries within one transaction. */
class TransactionQueries implements Connection {
  readonly dialect = postgresDialect;
  readonly db: BunSQLiteDatabase;
  readonly #sender: Sender;

  constructor(sender: Sender) {
    this.#sender = sender;
    // Builders of Drizzle for both engines have the same functions, and their tables the same names and conversions.
    this.db = drizzle({ client: sender as unknown as Client }) as unknown as BunSQLiteDatabase;
  }

  *all<Row>(query: RowsQuery<Row>): Steps<Row[]> {
    return yield* waitFor(withoutValues(this.#own<Row[]>(query)));
  }

  *first<Row>(query: RowsQuery<Row>): Steps<Row | undefined> {
    return (yield* this.all(query))[0];
  }

  *run(query: PlainQuery): Steps<void> {
    yield* waitFor(withoutValues(this.#own(query)));
  }

  prepare<Row>(query: QueryWithPlaceholders<Row>): PreparedQuery<Row> {
    const prepared = query.prepare() as unknown as {
      execute(values?: Readonly<Record<string, unknown>>): Promise<Row[]>;
    };
    return {
      *all(values) {
        return yield* waitFor(withoutValues(prepared.execute(values)));
      },
      *first(values) {
        return (yield* waitFor(withoutValues(prepared.execute(values))))[0];
      },
    };
  }

  *rows<Row>(text: string, values: Values = {}): Steps<Row[]> {
    const query = numbered(text, values);
    return yield* waitFor(this.#sender.unsafe(query.text, [...query.values]) as PromiseLike<Row[]>);
  }

  *row<Row>(text: string, values?: Values): Steps<Row | undefined> {
    return (yield* this.rows<Row>(text, values))[0];
  }

  *plainRows<Row extends readonly unknown[]>(text: string): Steps<Row[]> {
    const rows = (yield* waitFor(this.#sender.unsafe(text).values())) as readonly unknown[][];
    const plain = (value: unknown): unknown => (typeof value === "bigint" ? Number(value) : value);
    return rows.map((row) => row.map(plain)) as unknown as Row[];
  }

  *forEach<Row>(text: string, values: Values, visit: Visit<Row>): Steps<void> {
    const query = numbered(`DECLARE visited NO SCROLL CURSOR FOR ${text}`, values);
    yield* waitFor(this.#sender.unsafe(query.text, [...query.values]));
    for (let isMore = true; isMore;) {
      const rows = yield* this.rows<Row>(`FETCH ${ROWS_PER_FETCH} FROM visited`);
      for (const row of rows) visit(row);
      isMore = rows.length === ROWS_PER_FETCH;
    }
    yield* this.rows("CLOSE visited");
  }

  /** A query runs where it was built. One of another connection would run outside of the transaction. */
  #own<Rows>(query: object): PromiseLike<Rows> {
    const { session } = this.db as unknown as Built;
    assert((query as Built).session === session, "a query of another connection");
    return query as unknown as PromiseLike<Rows>;
  }

  *inSnapshot<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    return yield* work(this);
  }

  *inTransaction<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    return yield* work(this);
  }
}

/** Queries within a transaction that the caller has begun on this connection. */
export function transactionQueries(connection: ReservedSQL): Connection {
  return new TransactionQueries(connection);
}

/** Queries by any connection of a pool. */
export class PostgresQueries extends TransactionQueries {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    super({ unsafe: (text: string, values?: unknown[]) => pool.client.unsafe(text, values) });
    this.#pool = pool;
  }

  override *inSnapshot<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    return yield* this.#within(
      "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
      function* (transaction) {
        const result = yield* work(transaction);
        yield* transaction.rows("COMMIT");
        return result;
      },
    );
  }

  override *inTransaction<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return yield* this.#change(work);
      } catch (error) {
        if (!isConflict(error) || tries === CONFLICT_TRIES) throw error;
      }
    }
  }

  *#change<Result>(work: (connection: Connection) => Steps<Result>): Steps<Result> {
    let committing: { readonly id: string; readonly result: Result } | undefined;
    try {
      return yield* this.#within(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        function* (transaction) {
          yield* transaction.rows(COMMAND_LIMITS);
          const row = yield* transaction.row<{ id: string }>(
            `SELECT pg_current_xact_id()::text AS id, pg_advisory_xact_lock(${LOCKS.change})::text`,
          );
          const result = yield* work(transaction);
          committing = { id: row?.id ?? "0", result };
          yield* transaction.rows("COMMIT");
          return result;
        },
      );
    } catch (error) {
      // The reply of the COMMIT is lost. The server knows how it ended.
      if (committing === undefined || !isConnectionLoss(error)) throw error;
      if (yield* this.#wasCommitted(committing.id)) return committing.result;
      throw error;
    }
  }

  *#within<Result>(
    begin: string,
    work: (transaction: TransactionQueries) => Steps<Result>,
  ): Steps<Result> {
    const reserving = this.#pool.client.reserve();
    let connection: ReservedSQL | undefined;
    let isCommitted = false;
    try {
      connection = yield* waitFor(reserving);
      yield* waitFor(connection.unsafe(begin));
      const result = yield* work(new TransactionQueries(connection));
      isCommitted = true;
      return result;
    } finally {
      // Nobody waits here: the steps may end without being run to their end.
      if (connection === undefined) void giveBack(reserving);
      else if (isCommitted) void connection.release();
      else void rollBack(connection);
    }
  }

  *#wasCommitted(id: string): Steps<boolean> {
    for (let waitedMs = 0; waitedMs < LOOK_WITHIN_MS; waitedMs += LOOK_AGAIN_MS) {
      try {
        const row = yield* this.row<{ status: string | null }>(
          "SELECT pg_xact_status($id::xid8) AS status",
          { id },
        );
        if (row?.status !== "in progress") return row?.status === "committed";
      } catch (error) {
        if (!isConnectionLoss(error)) throw error;
      }
      yield* waitFor(Bun.sleep(LOOK_AGAIN_MS));
    }
    return false;
  }
}

/** The steps ended while they waited for the connection. Never rejects: there may be none. */
async function giveBack(reserving: Promise<ReservedSQL>): Promise<void> {
  try {
    void (await reserving).release();
  } catch {
    // Who waited for it was told.
  }
}

/** Never rejects: a broken connection has no transaction any more. */
async function rollBack(connection: ReservedSQL): Promise<void> {
  try {
    await connection.unsafe("ROLLBACK");
  } catch {
    // The pool opens another connection.
  } finally {
    void connection.release();
  }
}

/** Drizzle's own error has the values of the query in its text. */
async function withoutValues<Result>(query: PromiseLike<Result>): Promise<Result> {
  try {
    return await query;
  } catch (error) {
    throw error instanceof DrizzleQueryError && error.cause !== undefined ? error.cause : error;
  }
}

const NAME = /\$([A-Za-z]\w*)/g;

/** A query with `$1`, `$2` for its `$names`, whose values are texts: PostgreSQL then prepares it once for all values. */
function numbered(
  text: string,
  values: Values,
): { readonly text: string; readonly values: readonly string[] } {
  const texts: string[] = [];
  const places = new Map<string, string>();
  const placeOf = (name: string): string => {
    const value = values[name];
    if (value === undefined) throw new Error(`a query has no value for $${name}`);
    if (value === null) return "NULL";
    const place = places.get(name) ?? placed(value, texts);
    places.set(name, place);
    return place;
  };
  return { text: text.replaceAll(NAME, (_, name: string) => placeOf(name)), values: texts };
}

function placed(value: NonNullable<Values[string]>, texts: string[]): string {
  if (value instanceof Uint8Array) {
    texts.push(value.toHex());
    return `decode($${texts.length}::text, 'hex')`;
  }
  texts.push(typeof value === "boolean" ? String(Number(value)) : String(value));
  return typeof value === "string" ? `$${texts.length}::text` : `$${texts.length}::text::bigint`;
}
