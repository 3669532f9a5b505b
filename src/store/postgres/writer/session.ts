import type { ReservedSQL, SQL } from "bun";
import { sqlState } from "./failures.ts";

/** A statement and its values, which are texts: PostgreSQL then prepares it once, whatever the values are. */
export interface Statement {
  readonly text: string;
  readonly values: readonly string[];
}

/** A row as the connection reads it: each integer is a bigint. */
export type Row = Readonly<Record<string, unknown>>;

/** Opens a client that reads integers as bigints. */
export type Connect = () => SQL;

/** The connection broke or gave no answer in time. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";

  /** `mayBeCommitted`: the COMMIT of a transaction was sent. Else the server rolls the transaction back. */
  constructor(
    message: string,
    readonly mayBeCommitted: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * A bug: a statement was not sent, and those behind it may have been committed. The process must stop.
 */
export class UnsentStatement extends Error {
  override readonly name = "UnsentStatement";
}

export const BEGIN = statement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
export const COMMIT = statement("COMMIT");
const ROLLBACK = statement("ROLLBACK");

/**
 * Short, so that a transaction of a replica that stands still, or whose connection is cut, does not keep locks for long:
 * between two round trips of a transaction pass some milliseconds. A replica looks for the outcome of a lost commit only
 * after the old transaction has ended.
 */
const SETTINGS = [
  "SET lock_timeout = '4s'",
  "SET statement_timeout = '5s'",
  "SET idle_in_transaction_session_timeout = '1s'",
  "SET jit = off",
  // A statement is planned once. Without this one that was planned for a small table reads a large one as a whole.
  "SET enable_seqscan = off",
].map((text) => statement(text));

/** Longer than the timeouts of the server. */
const ANSWER_WITHIN_MS = 7000;

/** How long a statement of the transaction waits for a lock: for a batch of another replica, or hardly at all. */
export const USUAL_WAIT = statement("SET LOCAL lock_timeout = '250ms'");
export const SHORT_WAIT = statement("SET LOCAL lock_timeout = '50ms'");

/** A statement without values, or with values for its `$1`, `$2` and so on. */
export function statement(text: string, ...values: string[]): Statement {
  return { text, values };
}

/** One connection of the writer or of the lease. Its transactions run one after the other. */
export class Session {
  /** A COMMIT was sent since the last BEGIN. */
  hasSentCommit = false;
  roundTrips = 0;
  readonly #client: SQL;
  readonly #connection: ReservedSQL;
  #isClosed = false;

  private constructor(client: SQL, connection: ReservedSQL) {
    this.#client = client;
    this.#connection = connection;
  }

  /** Throws ConnectionLost if the server cannot be reached or refuses the connection. */
  static async open(connect: Connect): Promise<Session> {
    const client = connect();
    try {
      const session = new Session(client, await client.reserve());
      await session.run(...SETTINGS);
      return session;
    } catch (error) {
      void client.close({ timeout: 0 });
      throw error instanceof ConnectionLost ? error : lostBy(error, false);
    }
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Sends the statements in one round trip, and returns the rows of each. Throws what the server said about the first one
   * that failed, or ConnectionLost; then the connection is closed.
   */
  async run(...statements: readonly Statement[]): Promise<readonly (readonly Row[])[]> {
    if (this.#isClosed) throw new ConnectionLost("the connection is closed", false);
    if (statements.includes(BEGIN)) this.hasSentCommit = false;
    if (statements.includes(COMMIT)) this.hasSentCommit = true;
    this.roundTrips += 1;
    const timeout = Promise.withResolvers<"late">();
    const timer = setTimeout(() => timeout.resolve("late"), ANSWER_WITHIN_MS);
    const answers = Promise.allSettled(statements.map((one) => this.#send(one)));
    const settled = await Promise.race([answers, timeout.promise]);
    clearTimeout(timer);
    if (settled === "late") {
      this.close();
      throw new ConnectionLost("the server gave no answer in time", this.hasSentCommit);
    }
    const failures = settled.flatMap((one): unknown[] =>
      one.status === "rejected" ? [one.reason] : [],
    );
    const lost = failures.find(isLoss);
    const broken = failures.find((error) => sqlState(error) === undefined);
    if (lost !== undefined || broken !== undefined) this.close();
    if (lost !== undefined) throw lostBy(lost, this.hasSentCommit);
    if (broken !== undefined)
      throw new UnsentStatement("a statement was not sent", { cause: broken });
    if (failures.length > 0) throw failures[0];
    return settled.map((one) => (one.status === "fulfilled" ? one.value : []));
  }

  /** Runs one transaction. `work` ends it with COMMIT; without it, and after an error, it is rolled back. */
  async transaction<T>(work: () => Promise<T>): Promise<T> {
    this.hasSentCommit = false;
    try {
      const result = await work();
      if (!this.hasSentCommit) await this.run(ROLLBACK);
      return result;
    } catch (error) {
      if (!this.#isClosed) await this.run(ROLLBACK).catch(() => this.close());
      throw error;
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    void this.#client.close({ timeout: 0 });
  }

  async #send({ text, values }: Statement): Promise<readonly Row[]> {
    if (values.length > 0) return (await this.#connection.unsafe(text, [...values])) as Row[];
    // Without values `unsafe` uses the simple protocol, which waits for the statements before it.
    return (await this.#connection(templateOf(text))) as Row[];
  }
}

function templateOf(text: string): TemplateStringsArray {
  const strings: readonly string[] = [text];
  return Object.defineProperty(strings, "raw", { value: strings }) as TemplateStringsArray;
}

/** An array literal of PostgreSQL. */
export function arrayOf(numbers: Iterable<number>): string {
  return `{${[...numbers].join(",")}}`;
}

/** A connection that broke has no code of the server, or class 08, or what the server says before it closes it. */
function isLoss(error: unknown): boolean {
  const state = sqlState(error);
  if (state === undefined) return error instanceof Error && error.name === "PostgresError";
  return /^(?:08|57P)/.test(state) || state === "25P03";
}

function lostBy(error: unknown, mayBeCommitted: boolean): ConnectionLost {
  const message = error instanceof Error ? error.message : String(error);
  return new ConnectionLost(message, mayBeCommitted, { cause: error });
}
