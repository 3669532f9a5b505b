import { SQL } from "bun";
import { readUrlAgain } from "../../config/database.ts";
import { StoreError } from "../storeError.ts";
import { runAsync, stepByStep, type Awaited, type Steps } from "../steps.ts";
import { cannotBeUsed, connectionError, serverError } from "./advice.ts";
import { isConflict, messageOf, sqlState } from "./writer/failures.ts";
import { ConnectionLost } from "./writer/session.ts";

/** Connections for reads and the changes of commands. The writer and the lease have their own. */
const CONNECTIONS_MAX = 4;
const CONNECT_WITHIN_S = 5;
/** A standby cancels reads that are in the way of what it must apply. */
const CANCELLED_TRIES = 3;

/** PostgreSQL cuts a longer name. */
const APPLICATION_CHARS_MAX = 63;

/** Where the database is. `shownUrl` has no password. */
export interface ServerAddress {
  readonly url: string;
  readonly shownUrl: string;
  /** The file that the URL comes from. Each connection takes the user and the password that it has then. */
  readonly urlFile?: string | undefined;
  /** A hot standby: it may cancel reads to apply changes of the primary. */
  readonly isStandby?: boolean;
  /** How `pg_stat_activity` names the connections, after `tollgate/`: a replica, or a command. */
  readonly application?: string;
  /** Is told that a new connection cannot be made because of the file. Must not throw. */
  readonly onUnusableFile?: (problem: string) => void;
}

/** A client that reads integers as bigints. It connects at its first query. */
export function openClient(address: ServerAddress, connections: number): SQL {
  const { url, urlFile, application } = address;
  const client = new SQL(url, {
    max: connections,
    bigint: true,
    connectionTimeout: CONNECT_WITHIN_S,
    connection: { application_name: applicationName(application) },
    // An error of an idle connection. The next query opens another one.
    onclose: () => undefined,
  });
  if (urlFile !== undefined) followFile(client, { ...address, urlFile });
  return client;
}

/** A host name has no other characters. PostgreSQL would replace them too. */
function applicationName(application: string | undefined): string {
  if (application === undefined) return "tollgate";
  return `tollgate/${application.replace(/[^\x20-\x7e]/g, "?")}`.slice(0, APPLICATION_CHARS_MAX);
}

/** Bun reads the options at each new connection: of the pool, of a listener, and after a loss. First the user. */
function followFile(client: SQL, address: ServerAddress & { readonly urlFile: string }): void {
  const { urlFile, onUnusableFile } = address;
  // PGPASSWORD counts if the URL has none.
  const fallback = new URL(address.url).password === "" ? client.options.password : "";
  let password = client.options.password;
  const readUser = (): string => {
    try {
      const url = readUrlAgain(urlFile, address.url);
      password = url.password === "" ? fallback : decodeURIComponent(url.password);
      return decodeURIComponent(url.username);
    } catch (error) {
      const problem = messageOf(error);
      onUnusableFile?.(problem);
      throw new ConnectionLost(problem, false, { cause: error });
    }
  };
  Object.defineProperties(client.options, {
    username: { get: readUser, enumerable: true },
    password: { get: () => password, enumerable: true },
  });
}

/** The connections of a process to the database, for all but the writer and the lease. */
export class PostgresPool {
  readonly address: ServerAddress;
  readonly #answerWithinMs: number | undefined;
  #client: SQL;

  /** `answerWithinMs`: how long a read may take. Undefined: as long as it needs. */
  constructor(address: ServerAddress, answerWithinMs?: number) {
    this.address = address;
    this.#answerWithinMs = answerWithinMs;
    this.#client = openClient(address, CONNECTIONS_MAX);
  }

  get client(): SQL {
    return this.#client;
  }

  /**
   * Runs reads. If a connection breaks, or a standby cancels them, it runs them again. Rejects with StoreError if the server
   * cannot be used.
   */
  async read<Result>(make: () => Steps<Result>): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#inTime(runAsync(make()));
      } catch (error) {
        const triesMax = isConnectionLoss(error) ? 2 : isConflict(error) ? CANCELLED_TRIES : 1;
        if (tries >= triesMax) throw this.#translated(error);
      }
      await forgotten();
    }
  }

  /**
   * The steps of a long read, for a caller that runs them. Each wait is as long as a read may take. If a connection breaks
   * before the first pause, the steps begin once more. They throw StoreError if the server cannot be used.
   */
  *inSteps<Result>(make: () => Steps<Result>): Steps<Result> {
    let isPaused = false;
    const pass = function* (this: PostgresPool, awaited: Awaited): Steps<unknown> {
      isPaused ||= awaited === undefined;
      return yield awaited && this.#inTime(awaited);
    }.bind(this);
    try {
      return yield* stepByStep(make(), pass);
    } catch (error) {
      if (isPaused || !isConnectionLoss(error)) throw this.#translated(error);
    }
    yield forgotten();
    try {
      return yield* stepByStep(make(), pass);
    } catch (error) {
      throw this.#translated(error);
    }
  }

  /** Runs work. An error of the server becomes a StoreError. */
  async withStoreErrors<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw this.#translated(error);
    }
  }

  /** Runs the steps once, within the time-out. Rejects with StoreError if the server cannot be used. */
  async runOnce<Result>(make: () => Steps<Result>): Promise<Result> {
    return await this.withStoreErrors(() => this.#inTime(runAsync(make())));
  }

  async close(): Promise<void> {
    await this.#client.close({ timeout: 0 });
  }

  async #inTime<Result>(work: PromiseLike<Result>): Promise<Result> {
    const withinMs = this.#answerWithinMs;
    if (withinMs === undefined) return await work;
    const late = Promise.withResolvers<never>();
    const client = this.#client;
    const timer = setTimeout(() => {
      // Its connections may wait for a server that never answers.
      if (client === this.#client) this.#client = openClient(this.address, CONNECTIONS_MAX);
      void client.close({ timeout: 0 });
      late.reject(new StoreError(`${cannotBeUsed(this.address)}: it gave no answer in time`));
    }, withinMs);
    try {
      return await Promise.race([work, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  #translated(error: unknown): unknown {
    const { address } = this;
    if (address.isStandby && isConflict(error))
      return new StoreError(
        `${cannotBeUsed(address)}: it cancelled the read ${CANCELLED_TRIES} times to apply changes of the primary: set hot_standby_feedback = on or a larger max_standby_streaming_delay there`,
        { cause: error },
      );
    return isConnectionLoss(error)
      ? connectionError(address, error)
      : (serverError(address, error) ?? error);
  }
}

/** Bun's client may give a broken connection out again in the same turn of the event loop. */
async function forgotten(): Promise<void> {
  await Bun.sleep(0);
}

/** The connection broke, could not be made, or the server has closed it. */
export function isConnectionLoss(error: unknown): boolean {
  const state = sqlState(error);
  if (error instanceof ConnectionLost) return true;
  if (state !== undefined) return /^(?:08|57P)/.test(state);
  return error instanceof Error && error.name === "PostgresError";
}
