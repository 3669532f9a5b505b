import type { ReservedSQL } from "bun";
import { sql } from "drizzle-orm";
import type { AccessPaths, Connection, Dialect, Values, Visit, Work } from "../connection.ts";
import { QueryBuilder } from "../queryBuilder.ts";
import { LOCKS } from "./locks.ts";
import { isConnectionLoss, type PostgresPool } from "./pool.ts";
import { CONFLICT_TRIES, isConflict } from "./writer/failures.ts";

const postgresDialect: Dialect = {
  engine: "postgres",
  newRowId: sql`DEFAULT`,
  lockingRows: "FOR NO KEY UPDATE",
  isIn: (column, json) =>
    sql`${column} = ANY(ARRAY(SELECT jsonb_array_elements_text(${json}::text::jsonb)::bigint))`,
  lesser: (one, other) => `least(${one}, ${other})`,
  // With this collation `lower` changes ASCII only, as in SQLite.
  contains: (text, part) =>
    sql`strpos(lower(${text} COLLATE "C"), lower(${part}::text COLLATE "C")) > 0`,
};

/** The index `requests_account` has its columns with a sign: see `schema/schema.ts`. */
const postgresPaths: AccessPaths = {
  requestsAt: ({ from, to }, condition) =>
    `requests WHERE at >= ${from} AND at < ${to} AND ${condition}`,
  requestsById: ({ ofAccount, ofStatus }) => ({
    conditions: [
      ...(ofStatus ? ["status = $status AND status <> 'done'"] : []),
      ...(ofAccount ? [`${ofStatus ? "" : "+"}account_id = $accountId`] : []),
    ],
    // Without the sign the planner may walk through all rows in the order of their ids.
    id: ofAccount || ofStatus ? "+id" : "id",
    // Without the sign the planner may look for these requests from the oldest request on.
    at: "+at",
  }),
  wholeTable: (name) => name,
};

/** What sends queries: a pool, or the connection of a transaction. */
export interface Sender {
  unsafe(
    text: string,
    values?: unknown[],
  ): PromiseLike<unknown> & { values(): PromiseLike<unknown> };
}

/**
 * A settle locks an account for some milliseconds. A command that stands still for longer than these limits loses its
 * transaction, because replicas wait for its locks.
 */
const COMMAND_LIMITS = `SELECT set_config('lock_timeout', '5s', true),
  set_config('idle_in_transaction_session_timeout', '5s', true)`;
const LOOK_AGAIN_MS = 100;
const LOOK_WITHIN_MS = 10_000;
const ROWS_PER_FETCH = 5000;

/** Queries within one transaction. */
class TransactionQueries extends QueryBuilder implements Connection {
  readonly dialect = postgresDialect;
  readonly paths = postgresPaths;
  readonly #sender: Sender;

  constructor(sender: Sender) {
    super();
    this.#sender = sender;
  }

  protected asRead<Result>(query: () => Promise<Result>): Promise<Result> {
    return query();
  }

  protected asChange<Result>(query: () => Promise<Result>): Promise<Result> {
    return query();
  }

  override send(text: string, values: unknown[], isChange: boolean): Promise<unknown[]> {
    let place = 0;
    const query = text.replaceAll("?", () => `$${(place += 1)}`);
    const rows = async () => (await this.#sender.unsafe(query, values).values()) as unknown[];
    return isChange ? this.asChange(rows) : this.asRead(rows);
  }

  rows<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.asRead(() => this.#send<Row>(text, values));
  }

  async row<Row>(text: string, values?: Values): Promise<Row | undefined> {
    return (await this.rows<Row>(text, values))[0];
  }

  change<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.asChange(() => this.#send<Row>(text, values));
  }

  async plainRows<Row extends readonly unknown[]>(text: string): Promise<Row[]> {
    const rows = await this.asRead(
      async () => (await this.#sender.unsafe(text).values()) as readonly unknown[][],
    );
    const plain = (value: unknown): unknown => (typeof value === "bigint" ? Number(value) : value);
    return rows.map((row) => row.map(plain)) as unknown as Row[];
  }

  async forEach<Row>(text: string, values: Values, visit: Visit<Row>): Promise<void> {
    await this.rows(`DECLARE visited NO SCROLL CURSOR FOR ${text}`, values);
    for (let isMore = true; isMore;) {
      const rows = await this.rows<Row>(`FETCH ${ROWS_PER_FETCH} FROM visited`);
      for (const row of rows) visit(row);
      isMore = rows.length === ROWS_PER_FETCH;
    }
    await this.rows("CLOSE visited");
  }

  async #send<Row>(text: string, values: Values = {}): Promise<Row[]> {
    const query = numbered(text, values);
    return (await this.#sender.unsafe(query.text, [...query.values])) as Row[];
  }

  inSnapshot<Result>(work: Work<Result>): Promise<Result> {
    return work(this);
  }

  inTransaction<Result>(work: Work<Result>): Promise<Result> {
    return work(this);
  }
}

/** Queries within a transaction that the caller has begun. */
export function transactionQueries(sender: Sender): Connection {
  return new TransactionQueries(sender);
}

/**
 * Queries by any connection of a pool, within its time-out. It runs a read again after a lost connection. Rejects with
 * StoreError if the server cannot be used.
 */
export class PostgresQueries extends TransactionQueries {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    super({ unsafe: (text: string, values?: unknown[]) => pool.client.unsafe(text, values) });
    this.#pool = pool;
  }

  protected override asRead<Result>(query: () => Promise<Result>): Promise<Result> {
    return this.#pool.read(query);
  }

  protected override asChange<Result>(query: () => Promise<Result>): Promise<Result> {
    return this.#pool.runOnce(query);
  }

  override inSnapshot<Result>(work: Work<Result>): Promise<Result> {
    return this.#pool.read(() =>
      this.#within("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", async (transaction) => {
        const result = await work(transaction);
        await transaction.rows("COMMIT");
        return result;
      }),
    );
  }

  override inTransaction<Result>(work: Work<Result>): Promise<Result> {
    return this.#pool.runOnce(async () => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await this.#change(work);
        } catch (error) {
          if (!isConflict(error) || tries === CONFLICT_TRIES) throw error;
        }
      }
    });
  }

  async #change<Result>(work: Work<Result>): Promise<Result> {
    let committing: { readonly id: string; readonly result: Result } | undefined;
    try {
      return await this.#within(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        async (transaction) => {
          await transaction.rows(COMMAND_LIMITS);
          const row = await transaction.row<{ id: string }>(
            `SELECT pg_current_xact_id()::text AS id, pg_advisory_xact_lock(${LOCKS.change})::text`,
          );
          const result = await work(transaction);
          committing = { id: row?.id ?? "0", result };
          await transaction.rows("COMMIT");
          return result;
        },
      );
    } catch (error) {
      // The reply of the COMMIT is lost. The server knows how it ended.
      if (committing === undefined || !isConnectionLoss(error)) throw error;
      if (await this.#wasCommitted(committing.id)) return committing.result;
      throw error;
    }
  }

  async #within<Result>(
    begin: string,
    work: (transaction: TransactionQueries) => Promise<Result>,
  ): Promise<Result> {
    const connection = await this.#pool.client.reserve();
    try {
      await connection.unsafe(begin);
      const result = await work(new TransactionQueries(connection));
      void connection.release();
      return result;
    } catch (error) {
      // Nobody waits for it: a server that is gone may never answer.
      void rollBack(connection);
      throw error;
    }
  }

  async #wasCommitted(id: string): Promise<boolean> {
    for (let waitedMs = 0; waitedMs < LOOK_WITHIN_MS; waitedMs += LOOK_AGAIN_MS) {
      try {
        const [row] = await this.#pool.client.unsafe<{ readonly status: string | null }[]>(
          "SELECT pg_xact_status($1::text::xid8) AS status",
          [id],
        );
        if (row?.status !== "in progress") return row?.status === "committed";
      } catch (error) {
        if (!isConnectionLoss(error)) throw error;
      }
      await Bun.sleep(LOOK_AGAIN_MS);
    }
    return false;
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
