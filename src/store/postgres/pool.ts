import { SQL } from "bun";
import { readUrlAgain } from "../../config/database.ts";
import { StoreError } from "../storeError.ts";
import { cannotBeUsed, connectionError, serverError } from "./advice.ts";
import { isConflict, messageOf, sqlState } from "./writer/failures.ts";
import { ConnectionLost } from "./writer/session.ts";

/** Connections for reads and the changes of commands. The writer and the lease have their own. */
const CONNECTIONS_MAX = 4;
const CONNECT_WITHIN_S = 5;
/**
 * How long a connection of the pool may be idle. It is closed before a load balancer on the way drops it without a
 * notice.
 */
const IDLE_S_MAX = 20;
/**
 * How long a read of a replica waits for a server that is gone. Commits wait as long; then the replica refuses
 * requests.
 */
const GONE_MS_MAX = 10_000;
const TRY_AGAIN_MS = 200;
/** A standby cancels reads that conflict with changes of the primary. */
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

/** A client that reads integers as bigints. It connects at its first query. `idleS` 0: idle connections stay. */
export function openClient(address: ServerAddress, connections: number, idleS = 0): SQL {
  const { url, urlFile, application } = address;
  const client = new SQL(url, {
    max: connections,
    bigint: true,
    connectionTimeout: CONNECT_WITHIN_S,
    idleTimeout: idleS,
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

/** The time of a read has ended. */
class NoAnswer extends StoreError {}

/** The connections of a process to the database, for all but the writer and the lease. */
export class PostgresPool {
  readonly address: ServerAddress;
  readonly #answerWithinMs: number | undefined;
  #client: SQL;
  #isClosed = false;

  /** `answerWithinMs`: how long a read may take. Undefined: as long as it needs. */
  constructor(address: ServerAddress, answerWithinMs?: number) {
    this.address = address;
    this.#answerWithinMs = answerWithinMs;
    this.#client = openClient(address, CONNECTIONS_MAX, IDLE_S_MAX);
  }

  get client(): SQL {
    return this.#client;
  }

  /**
   * Runs reads. If a connection breaks, or a standby cancels them, it runs them again; with `answerWithinMs` also while the
   * server is gone or does not answer. Rejects with StoreError if the server cannot be used.
   */
  async read<Result>(work: () => Promise<Result>): Promise<Result> {
    const startedMs = performance.now();
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#inTime(work());
      } catch (error) {
        const pauseMs = this.#pauseMs(error, tries, performance.now() - startedMs);
        if (pauseMs === undefined) throw this.#translated(error);
        await Bun.sleep(pauseMs);
      }
    }
  }

  /** The time until the next try of a read. Undefined: there is none. */
  #pauseMs(error: unknown, tries: number, tookMs: number): number | undefined {
    if (isConflict(error)) return tries < CANCELLED_TRIES ? 0 : undefined;
    if (this.#isClosed) return undefined;
    // A query of a connection that broke in the same moment may never be answered.
    if (error instanceof NoAnswer) return tookMs < GONE_MS_MAX ? 0 : undefined;
    if (!isConnectionLoss(error)) return undefined;
    // All connections may have been closed while they were idle. Bun's client may give a broken one out again in the same
    // turn of the event loop.
    if (tries <= CONNECTIONS_MAX) return 0;
    return this.#answerWithinMs !== undefined && tookMs < GONE_MS_MAX ? TRY_AGAIN_MS : undefined;
  }

  /** Runs work. An error of the server becomes a StoreError. */
  async withStoreErrors<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw this.#translated(error);
    }
  }

  /** Runs work once, within the time-out. Rejects with StoreError if the server cannot be used. */
  async runOnce<Result>(work: () => Promise<Result>): Promise<Result> {
    return await this.withStoreErrors(() => this.#inTime(work()));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#client.close({ timeout: 0 });
  }

  async #inTime<Result>(work: PromiseLike<Result>): Promise<Result> {
    const withinMs = this.#answerWithinMs;
    if (withinMs === undefined) return await work;
    const late = Promise.withResolvers<never>();
    const client = this.#client;
    const timer = setTimeout(() => {
      // The connections of this client may wait for a server that never answers.
      if (client === this.#client)
        this.#client = openClient(this.address, CONNECTIONS_MAX, IDLE_S_MAX);
      void client.close({ timeout: 0 });
      late.reject(new NoAnswer(`${cannotBeUsed(this.address)}: it gave no answer in time`));
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

/** The connection broke, could not be made, or the server has closed it. */
export function isConnectionLoss(error: unknown): boolean {
  const state = sqlState(error);
  if (error instanceof ConnectionLost) return true;
  if (state !== undefined) return /^(?:08|57P)/.test(state);
  return error instanceof Error && error.name === "PostgresError";
}
