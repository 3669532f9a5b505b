import type { SQL } from "bun";
import { assert } from "../../lib/assert.ts";
import type { ChangeCounter, Connection } from "../connection.ts";
import { openClient, type PostgresPool } from "./pool.ts";
import { pooledError, requireSessions } from "./pooler.ts";
import type { PostgresQueries } from "./queries.ts";

/** Sent by triggers for each change that `changes.seq` counts. The text is the row id of the account. */
const CHANGED = "tollgate_changed";
/** Sent by a replica or a command that needs money which others have reserved. The text is the row id of the account. */
const WANTED = "tollgate_wanted";
/** Less than a second, so that a change counts within a second also where the connection for notifications is lost. */
export const LOOK_EVERY_MS = 800;
/** The server sends a notification with the commit. */
const HEARD_WITHIN_MS = 5000;

/** The callbacks for what other processes do. They must not throw. */
export interface ChangeListener {
  /** The account or one of its keys was changed. Undefined: any of them may be. */
  onChanged(accountId: number | undefined): void;
  /** Another process needs money of this account. */
  onWanted(accountId: number): void;
  /** The server could not be asked. It is asked again. */
  onError(error: unknown): void;
}

/** Follows the changes of other processes, by notifications and by a look at `changes.seq`. */
export interface FollowedChanges extends ChangeCounter {
  close(): Promise<void>;
}

/** Starts to follow. Rejects if the server cannot be asked. */
export async function followChanges(
  pool: PostgresPool,
  queries: PostgresQueries,
  listener: ChangeListener,
): Promise<FollowedChanges> {
  const client = openClient(pool.address, 1);
  const follower = new ChangeFollower(pool, queries, listener);
  try {
    await client.listen(
      CHANGED,
      (text) => follower.told(text),
      () => follower.listening(),
    );
    await client.listen(WANTED, (text) => listener.onWanted(Number(text)));
    await requireNotifications(pool, client);
    await follower.start();
  } catch (error) {
    await client.close({ timeout: 0 });
    throw error;
  }
  return {
    read: () => follower.count,
    current: () => follower.count,
    async close() {
      await follower.stop();
      await client.close({ timeout: 0 });
    },
  };
}

/**
 * Throws PooledError if the connection does not hear a notification: a pooler has given its session to others. The first look
 * at the sessions may miss a pooler that many use.
 */
async function requireNotifications(pool: PostgresPool, client: SQL): Promise<void> {
  const channel = `tollgate_probe_${crypto.randomUUID().replaceAll("-", "")}`;
  const heard = Promise.withResolvers<boolean>();
  await client.listen(channel, () => heard.resolve(true));
  await pool.client.unsafe(`SELECT pg_notify('${channel}', '')`);
  const timer = setTimeout(() => heard.resolve(false), HEARD_WITHIN_MS);
  const isHeard = await heard.promise;
  clearTimeout(timer);
  if (!isHeard) throw pooledError(pool.address);
}

/**
 * A text that differs after each commit to the database, by anyone. It is the list of the transactions that have ended: the
 * server has it in memory. Commits to other databases of the server, and those of leases, change it too.
 */
export async function changeSignal(connection: Connection): Promise<string> {
  const row = await connection.row<{ ended: string }>(
    "SELECT CAST(pg_current_snapshot() AS text) AS ended",
  );
  assert(row !== undefined, "a snapshot has one row");
  return row.ended;
}

class ChangeFollower {
  /** Grows with everything that this process is told. */
  count = 0;
  readonly #pool: PostgresPool;
  readonly #queries: PostgresQueries;
  readonly #listener: ChangeListener;
  /** `changes.seq` at the last look. */
  #seq: bigint | undefined;
  /** Notifications since the last look. */
  #told = 0n;
  /** The connection for notifications was made again since the last look. */
  #isNew = false;
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #isStopped = false;

  constructor(pool: PostgresPool, queries: PostgresQueries, listener: ChangeListener) {
    this.#pool = pool;
    this.#queries = queries;
    this.#listener = listener;
  }

  told(accountId: string): void {
    this.#told += 1n;
    this.#changed(Number(accountId));
  }

  /** Notifications were lost before, and the URL may lead to another place now. */
  listening(): void {
    this.#isNew = true;
    this.#changed(undefined);
  }

  async start(): Promise<void> {
    this.#isNew = false;
    await this.#look();
    this.#lookLater();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #changed(accountId: number | undefined): void {
    this.count += 1;
    this.#listener.onChanged(accountId);
  }

  #lookLater(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look()
        .catch((error: unknown) => this.#listener.onError(error))
        .then(() => this.#lookLater());
    }, LOOK_EVERY_MS).unref();
  }

  async #look(): Promise<void> {
    if (this.#isNew)
      await this.#pool.withStoreErrors(() =>
        requireSessions(this.#pool.client, this.#pool.address),
      );
    this.#isNew = false;
    const toldBefore = this.#told;
    const row = await this.#queries.row<{ seq: bigint }>("SELECT seq FROM changes");
    const seq = row?.seq ?? 0n;
    const known = this.#seq === undefined ? seq : this.#seq + toldBefore;
    // A transaction tells an account once, however often it has changed. Then this look tells it again.
    if (seq > known) this.#changed(undefined);
    this.#seq = seq;
    // What was told meanwhile may be counted in `seq` or not: at worst the next look tells a change again.
    this.#told = 0n;
  }
}
