import type { Clock } from "../../lib/clock.ts";
import { followChanges, type ChangeListener } from "./changes.ts";
import { openClient, type PostgresPool, type ServerAddress } from "./pool.ts";
import { isPoolerSymptom, pooledError } from "./pooler.ts";
import { LOCKERS } from "./schema/lockWait.ts";
import { openServer, type PostgresStore } from "./store.ts";
import { knownSchema, versionOf, type UpgradeWatch } from "./schema/migrations.ts";
import { Lease, type LeaseListener } from "./writer/lease.ts";
import { startReplicaWriter, type ReplicaWriter } from "./writer/writer.ts";
import type { ChangeCounter } from "../connection.ts";

/** A read that takes longer is cancelled, because a client waits for it. */
const ANSWER_WITHIN_MS = 5000;

/** The callbacks of a replica. They must not throw. */
export interface ReplicaListener extends ChangeListener, LeaseListener {
  /** A batch was committed. */
  onCommit(tookMs: number): void;
  /** A new connection cannot be made, because the file with the URL cannot be used. It is read again. */
  onUnusableFile(problem: string): void;
  /** Another transaction has rows of an account, and `lockers` are the sessions that may have them. */
  onLocked(account: string, lockers: string): void;
  /** A bug: the process must stop. */
  onFatal(message: string): void;
}

export interface ReplicaOptions {
  /** Shown to operators, such as the name of the machine. */
  readonly name: string;
  readonly version: string;
  /** For the time-outs of the writer. A lease counts real time, as its server does. */
  readonly clock: Clock;
  readonly listener: ReplicaListener;
  /** Told before the replica has its lease. */
  readonly upgrade?: UpgradeWatch;
}

/** What a serving gateway has of a PostgreSQL database. */
export interface ReplicaStore {
  readonly store: PostgresStore;
  readonly writer: ReplicaWriter;
  readonly lease: Pick<Lease, "id" | "ageMs" | "isValid" | "liveReplicas" | "clockSkew">;
  readonly changes: ChangeCounter;
  /** Commits what is queued, and gives the lease back. */
  close(): Promise<void>;
}

/**
 * Opens the database for a gateway that serves, as one of its replicas. Rejects with StoreError if the server cannot be
 * reached, is not durable, or has the schema of another version.
 */
export async function openReplica(
  address: ServerAddress,
  options: ReplicaOptions,
): Promise<ReplicaStore> {
  const { clock, upgrade, listener: told, ...member } = options;
  const listener: ReplicaListener = {
    ...told,
    onError: (error) => told.onError(isPoolerSymptom(error) ? pooledError(address, error) : error),
  };
  const own = {
    ...address,
    application: options.name,
    onUnusableFile: (problem: string) => listener.onUnusableFile(problem),
  };
  const server = await openServer(own, ANSWER_WITHIN_MS, upgrade);
  const { pool, queries, store } = server;
  const connect = () => openClient(own, 1);
  try {
    const followed = await pool.withStoreErrors(() => followChanges(pool, queries, listener));
    const lease = await pool.withStoreErrors(() =>
      Lease.take({ ...member, listener, connect, knownSchema: versionOf(knownSchema) }),
    );
    const writer = startReplicaWriter({
      connect,
      lease,
      clock,
      onFatal: (message) => listener.onFatal(message),
      onCommit: (tookMs) => listener.onCommit(tookMs),
      onLocked: (accountId) => void tellLocked(pool, accountId, listener),
    });
    return {
      store,
      writer,
      lease,
      changes: followed,
      async close() {
        await writer.close();
        await lease.release();
        await followed.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function tellLocked(
  pool: PostgresPool,
  accountId: number,
  listener: ReplicaListener,
): Promise<void> {
  try {
    const [row] = await pool.client.unsafe<{ readonly name: string; readonly lockers: string }[]>(
      LOCKERS,
      [String(accountId)],
    );
    listener.onLocked(row?.name ?? "", row?.lockers ?? "a session that has ended");
  } catch (error) {
    listener.onError(error);
  }
}
