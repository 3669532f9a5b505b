import { hostname } from "node:os";
import { KnownKeys } from "../auth/knownKeys.ts";
import { Holds } from "../billing/holds.ts";
import type { PostgresDatabase } from "../config/schema.ts";
import { serviceUnavailable } from "../contract/errors.ts";
import { DAY_MS } from "../lib/clock.ts";
import { formatRoubles } from "../lib/money.ts";
import { version } from "../lib/version.ts";
import {
  openReplica,
  type ClockSkew,
  type ReplicaListener,
  type UpgradeWatch,
} from "../store/open.ts";
import { PooledError, StoppedError, WriteError } from "../store/store.ts";
import { errorClass } from "../telemetry/log.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";

/** A key expires, and a request counts for a day, by the clock of the replica. */
const CLOCK_SKEW_MS_MAX = 2000;

/** Opens the PostgreSQL database for one of the gateways that serve from it. Rejects with StoreError. */
export async function openPostgresDatabase(
  address: PostgresDatabase,
  services: DatabaseServices,
): Promise<ServedDatabase> {
  const { clock, random } = services;
  /** There are no holds before the writer. */
  let holds: Holds | undefined = undefined;
  const replica = await untilStopped(services, () =>
    openReplica(address, {
      name: hostname(),
      version: version(),
      clock,
      listener: listenerOf(services, () => holds),
      upgrade: upgradeWatch(services),
    }),
  );
  const { store, writer, lease, changes } = replica;
  if (lease.id !== undefined) logJoined(services, lease.id);
  const noLease = () => new WriteError("unreachable", "the replica has no lease");
  const ownHolds = new Holds({
    writer,
    clock,
    random,
    isAlone: false,
    refuse() {
      services.refuse();
      if (!lease.isValid) throw serviceUnavailable(noLease());
    },
  });
  holds = ownHolds;
  return {
    store,
    readsBlock: false,
    writer,
    holds: ownHolds,
    knownKeys: new KnownKeys({ keys: store.keys, changes }),
    changeNotice: async (change) => await store.notices.change(change),
    replicas: () => lease.liveReplicas,
    // Without a lease requests are refused before the writer could fail.
    get blockedBy() {
      return writer.blockedBy ?? (lease.isValid ? undefined : "unreachable");
    },
    requireReadable() {
      if (!lease.isValid) throw noLease();
    },
    figures: () => ({
      replica: {
        id: lease.id,
        leaseAgeMs: lease.ageMs,
        clockSkewMs: lease.clockSkew?.ms,
        liveReplicas: lease.liveReplicas,
        blocks: ownHolds.blocks(),
        reserved: ownHolds.reserved(),
        ...writer.figures(),
      },
    }),
    async close() {
      ownHolds.close();
      await replica.close();
    },
  };
}

/** Logs that a signal has ended an upgrade that waited. */
async function untilStopped<Opened>(
  { log }: DatabaseServices,
  open: () => Promise<Opened>,
): Promise<Opened> {
  try {
    return await open();
  } catch (error) {
    if (error instanceof StoppedError) {
      log.info(error.message);
      log.flush();
    }
    throw error;
  }
}

/** The log is flushed, because a migration can take long, and the process may be stopped meanwhile. */
function upgradeWatch({ log, upgrade }: DatabaseServices): UpgradeWatch {
  return {
    stopped: upgrade.stopped,
    onUpgrade({ known }) {
      log.info("upgrading the database on the server: the gateway makes no backup of it", {
        schema: known,
      });
      log.flush();
    },
    onBlocked({ blockers, waitedMs }) {
      log.warn("upgrade_blocked", { problem: blockers, duration_ms: Math.round(waitedMs) });
      log.flush();
    },
    onUpgraded: ({ known }, tookMs) =>
      log.info("upgraded the database", { schema: known, duration_ms: Math.round(tookMs) }),
  };
}

/** Passes the events of the replica to the holds and to the log. */
function listenerOf(services: DatabaseServices, holds: () => Holds | undefined): ReplicaListener {
  const { log, metrics } = services;
  return {
    onChanged: (accountId) => holds()?.changed(accountId),
    onWanted: (accountId) => holds()?.wanted(accountId),
    onError(error) {
      // The URL leads to another place than at the start.
      if (error instanceof PooledError) services.fatal(error.message);
      else log.warn("database_server_silent", { error: errorClass(error) });
    },
    onLost() {
      holds()?.reset();
      log.error("replica_fenced");
    },
    onClockSkew: clockWatch(services),
    onOutdated: () =>
      services.fatal(
        "a newer version of tollgate has upgraded it, and this version cannot work with it any more: upgrade this one",
      ),
    onJoined: (replicaId) => logJoined(services, replicaId),
    onEnded: ({ replicaId, interrupted, released }) =>
      log.warn("other_replica_fenced", {
        replica_id: replicaId,
        count: interrupted,
        held_rub: formatRoubles(released),
      }),
    onLocked: (account, lockers) =>
      log.warn("account_locked", { account, problem: `locked by ${lockers}` }),
    onCommit: (tookMs) => metrics.committed(tookMs),
    onUnusableFile: urlFileWatch(services),
    onFatal: (message) => services.fatal(message),
  };
}

/** The time between two log lines: several connections may fail at once, again and again. */
const TOLD_EVERY_MS = 10_000;

function urlFileWatch({ log, clock }: DatabaseServices): (problem: string) => void {
  let toldAtMs = -Infinity;
  return (problem) => {
    const nowMs = clock.monotonicMs();
    if (nowMs - toldAtMs < TOLD_EVERY_MS) return;
    toldAtMs = nowMs;
    log.error("database_url_unusable", { problem });
  };
}

/** Logs that the clocks differ: when it begins, and once a day while it holds. */
function clockWatch({ log, clock }: DatabaseServices): (skew: ClockSkew) => void {
  let toldAtMs = -Infinity;
  return ({ ms, withinMs }) => {
    const differsByMs = Math.abs(ms) - withinMs;
    // Half of the limit, so that a clock at the limit is not logged with each heartbeat.
    if (differsByMs < CLOCK_SKEW_MS_MAX / 2) toldAtMs = -Infinity;
    const nowMs = clock.monotonicMs();
    if (differsByMs <= CLOCK_SKEW_MS_MAX || nowMs - toldAtMs < DAY_MS) return;
    toldAtMs = nowMs;
    const direction = ms > 0 ? "behind" : "ahead of";
    log.warn("clock_differs", {
      problem: `${(Math.abs(ms) / 1000).toFixed(1)} s ${direction} that of the PostgreSQL server`,
    });
  };
}

function logJoined({ log }: DatabaseServices, replicaId: number): void {
  log.info("this replica serves from the database", { replica_id: replicaId });
}
