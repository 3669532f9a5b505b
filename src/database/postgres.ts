import { hostname } from "node:os";
import { KnownKeys } from "../auth/knownKeys.ts";
import { ReplicaHolds } from "../billing/replicaHolds.ts";
import type { PostgresDatabase } from "../config/schema.ts";
import { serviceUnavailable } from "../contract/errors.ts";
import { formatRoubles } from "../lib/money.ts";
import { version } from "../lib/version.ts";
import { openReplica, WriteError, type ReplicaListener } from "../store/store.ts";
import { errorClass } from "../telemetry/log.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";

/** Opens the PostgreSQL database for one of the gateways that serve from it. Rejects with StoreError. */
export async function openPostgresDatabase(
  address: PostgresDatabase,
  services: DatabaseServices,
): Promise<ServedDatabase> {
  const { clock, random } = services;
  const money: Partial<Record<"holds", ReplicaHolds>> = {};
  const replica = await openReplica(address, {
    name: hostname(),
    version: version(),
    clock,
    listener: listenerOf(services, () => money.holds),
  });
  const { store, writer, lease, changes } = replica;
  logJoined(services, lease.id);
  const requireLease = (): void => {
    if (!lease.isValid) throw new WriteError("unreachable", "the replica has no lease");
  };
  const refuse = (): void => {
    services.refuse();
    try {
      requireLease();
    } catch (error) {
      throw serviceUnavailable(error);
    }
  };
  const holds = new ReplicaHolds({ writer, clock, random, refuse });
  money.holds = holds;
  return {
    store,
    writer,
    holds,
    knownKeys: new KnownKeys({ keys: store.keys, changes }),
    replicas: () => lease.liveReplicas,
    requireReadable: requireLease,
    figures: () => ({
      replica: {
        id: lease.id,
        leaseAgeMs: lease.ageMs,
        liveReplicas: lease.liveReplicas,
        blocks: holds.blocks(),
        reserved: holds.reserved(),
        ...writer.figures(),
      },
    }),
    async close() {
      holds.close();
      await replica.close();
    },
  };
}

/** What the replica is told, for the holds and for the log. */
function listenerOf(
  services: DatabaseServices,
  holds: () => ReplicaHolds | undefined,
): ReplicaListener {
  const { log, metrics } = services;
  return {
    onChanged: (accountId) => holds()?.changed(accountId),
    onWanted: (accountId) => holds()?.wanted(accountId),
    onError: (error) =>
      log.warn("the database server did not answer: it is asked again", {
        error: errorClass(error),
      }),
    onLost() {
      holds()?.reset();
      log.error(
        "another replica has ended this one, because it gave no sign of life: its open requests fail, and nothing is charged",
      );
    },
    onOutdated: () =>
      services.fatal(
        "it was upgraded by a newer version of tollgate, and this version cannot work with it any more: upgrade this one",
      ),
    onJoined: (replicaId) => logJoined(services, replicaId),
    onEnded: ({ replicaId, interrupted, released }) =>
      log.warn(
        "a replica gave no sign of life: its open requests are interrupted, what it had reserved is released, and nothing is charged",
        { replica_id: replicaId, count: interrupted, held_rub: formatRoubles(released) },
      ),
    onCommit: (tookMs) => metrics.committed(tookMs),
    onFatal: (message) => services.fatal(message),
  };
}

function logJoined({ log }: DatabaseServices, replicaId = 0): void {
  log.info("this replica serves from the database", { replica_id: replicaId });
}
