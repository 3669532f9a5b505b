import type { KnownKeys } from "../auth/knownKeys.ts";
import type { Holds } from "../billing/holds.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import type { LiveReplicas } from "../limits/rateLimits.ts";
import type { NoticeChange, Store, Writer } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseFigures, Metrics } from "../telemetry/metrics.ts";

/** The database of a serving gateway: its reads, its writes, and the holds of money. */
export interface ServedDatabase {
  readonly store: Store;
  /** A read of the store blocks this thread. */
  readonly readsBlock: boolean;
  readonly writer: Writer;
  readonly holds: Holds;
  readonly knownKeys: KnownKeys;
  /** Changes the record of a notice. Resolves with true for a claim that this gateway has got. Rejects if it cannot be written. */
  changeNotice(change: NoticeChange): Promise<boolean>;
  /** The gateways that serve from this database and are alive, with this one. */
  readonly replicas: LiveReplicas;
  /** Why no charge can be written now; undefined if it can. */
  readonly blockedBy: Writer["blockedBy"];
  /** Throws if the database cannot be read. */
  requireReadable(): void;
  figures(): DatabaseFigures;
  /** Gives back what is reserved, and closes everything. Requests in flight should have ended. */
  close(): Promise<void>;
}

/** How a gateway that starts upgrades the database of an earlier version. */
export interface UpgradeChoice {
  /** False: no backup of a SQLite file is made before the upgrade. */
  readonly wantsBackup: boolean;
  /** Ends the backup and the start. */
  readonly stopped: Promise<void>;
}

/** The services of the gateway that a database uses. */
export interface DatabaseServices {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly upgrade: UpgradeChoice;
  /** Throws if no request may be admitted now. */
  refuse(): void;
  /** Ends the process: the database can no longer be trusted. */
  fatal(message: string): void;
}
