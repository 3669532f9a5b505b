import { LocalHolds } from "./billing/localHolds.ts";
import { KnownKeys } from "./auth/knownKeys.ts";
import { OpenMeters } from "./billing/meter.ts";
import { requireSqlite } from "./config/database.ts";
import type { Config, SqliteDatabase } from "./config/schema.ts";
import { candidatesOf, createCatalog } from "./gateway/catalog.ts";
import { refuseWhileUnwritable } from "./gateway/admission/admit.ts";
import type { Gateway, ConfigSnapshot } from "./gateway/gateway.ts";
import { systemClock, Deadlines, type Clock } from "./lib/clock.ts";
import { idMaker, type NewId, systemRandom, type Random } from "./lib/random.ts";
import { formatRoubles } from "./lib/money.ts";
import { bodyBytesMax, createBodyBudget, type BodyBudget } from "./limits/bodyBudget.ts";
import { createFailedKeyLimits, type FailedKeyLimits } from "./limits/failedKeys.ts";
import { createRateLimiter, type RateLimiter } from "./limits/rateLimits.ts";
import { createFairQueue, type FairQueue } from "./limits/fairQueue.ts";
import { createWrongCodeLimits, type WrongCodeLimits } from "./limits/wrongCodes.ts";
import { UpstreamError, type UpstreamExchange } from "./providers/upstream.ts";
import { RouteHealth } from "./routing/routeHealth.ts";
import { createRetryBudget } from "./routing/dispatch.ts";
import {
  createWalSizeWarning,
  toStoreError,
  walSizeBytes,
  openStore,
  hardLinkProblem,
  startFolding,
  startWriter,
  StoreError,
  takeInstanceLock,
  type Folding,
  type InstanceLock,
  type MigrationProgress,
  type Store,
} from "./store/store.ts";
import { createLog, type Log } from "./telemetry/log.ts";
import { silentMetrics, type LiveFigures, type Metrics } from "./telemetry/metrics.ts";
import type { Tracing } from "./telemetry/tracing.ts";

/** What tests replace: clock, random numbers, the log's output, and the end of the process. */
export interface Edges {
  clock: Clock;
  random: Random;
  /** Writes one or more complete log lines. */
  writeLog(lines: string): void;
  /** Ends the process, because the database can no longer be trusted. */
  fatal(message: string): void;
}

/** The real clock and random numbers, with the caller's log output and fatal handler. */
export function systemEdges(own: Pick<Edges, "writeLog" | "fatal">): Edges {
  return { clock: systemClock, random: systemRandom, ...own };
}

/** An open gateway: everything but the HTTP server. */
export interface App {
  readonly gateway: Gateway;
  readonly rateLimiter: RateLimiter;
  readonly failedKeyLimits: FailedKeyLimits;
  readonly wrongCodeLimits: WrongCodeLimits;
  readonly fairQueue: FairQueue;
  readonly bodies: BodyBudget;
  readonly newId: NewId;
  /** True from the moment that the gateway refuses new requests. */
  isDraining: boolean;
  readonly requests: RequestCount;
  /**
   * Puts providers, models, prices, limits and keep_requests of another config in force. Requests in flight keep their
   * config snapshot. Cooldowns of refused accounts end.
   */
  reload(config: Config): void;
  /** Aborts every request in flight. Each fails, and nothing is charged. */
  abortAll(): void;
  /** Closes everything in reverse order of opening. Requests in flight should have ended. */
  close(): Promise<void>;
}

/** How often the gateway checks that database and lock are still the files that it opened, and the size of the WAL. */
const FILE_WATCH_MS = 5000;

/** Logged when a stop could not move the WAL into the database file. Nothing is lost. */
const WAL_KEPT =
  "the write-ahead log (-wal file) still holds committed data: copy or move it together with the database file";

/** Starts to send traces. */
export type StartTracing = (
  services: Pick<Gateway, "clock" | "random" | "log" | "metrics">,
) => Tracing;

/** The composition root. Throws StoreError if the database cannot be opened. */
export function openApp(
  config: Config,
  edges: Edges,
  metrics: Metrics = silentMetrics,
  startTracing?: StartTracing,
): App {
  const { clock, random } = edges;
  const log = createLog(config.log, (lines) => edges.writeLog(lines));
  const database = requireSqlite(config.database, "`tollgate serve`");
  const { path, durability } = database;
  const { lock, store, interrupted } = openLocked(database, ({ copied, total }) => {
    log.info("migrating the database", { count: copied, total });
    log.flush();
  });
  // Normal at a first start. Later it means that the database file was lost or the path has changed.
  if (store.isNew)
    log.info("created a new database: none existed at this path", { database: path });
  if (interrupted.count > 0) {
    const fields = { count: interrupted.count, held_rub: formatRoubles(interrupted.reserved) };
    log.warn(
      "the previous run left open requests: they are interrupted, their holds are released and nothing is charged",
      fields,
    );
  }
  const writer = startWriter(
    { path, durability },
    (message) => edges.fatal(message),
    (tookMs) => metrics.committed(tookMs),
    clock,
  );
  const foldingFor = ({ database }: Config): Folding =>
    startFolding({ writer, store }, clock, database.keepRequestsMs, (count) =>
      log.info("folded old requests into daily totals", { count }),
    );
  let folding = foldingFor(config);
  const storeWatch = watchStore({ path, store, lock, log }, edges);
  const onUnsolicitedData = (provider: string, distrustMs: number): void =>
    log.warn(
      "the provider sent data that no request asked for: its connections are not reused for a while",
      {
        provider,
        cooldown_ms: distrustMs,
      },
    );
  const snapshotOf = (next: Config, before?: ConfigSnapshot): ConfigSnapshot => ({
    config: next,
    loadedAt: clock.epochMs(),
    catalog: createCatalog(next, clock, { previous: before?.catalog, onUnsolicitedData }),
  });
  const gateway = createGateway({
    current: snapshotOf(config),
    store,
    writer,
    clock,
    random,
    log,
    metrics,
    tracing: startTracing?.({ clock, random, log, metrics }),
  });
  const leakWatch = watchLeakedRequests(gateway);
  const requests = countRequests();
  const bodies = createBodyBudget(bodyBytesMax());
  metrics.watch(() => liveFigures({ gateway, requests, bodies }, path));
  return {
    gateway,
    rateLimiter: createRateLimiter(clock),
    failedKeyLimits: createFailedKeyLimits(clock),
    wrongCodeLimits: createWrongCodeLimits(clock),
    fairQueue: createFairQueue(clock),
    bodies,
    newId: idMaker(clock, random),
    isDraining: false,
    requests,
    reload(next) {
      const before = gateway.current;
      gateway.current = snapshotOf(next, before);
      before.catalog.close(gateway.current.catalog);
      gateway.health.resetAccountCooldowns();
      if (next.database.keepRequestsMs === before.config.database.keepRequestsMs) return;
      folding.stop();
      folding = foldingFor(next);
    },
    abortAll() {
      gateway.inFlight.isAborting = true;
      for (const exchange of gateway.inFlight.exchanges) {
        exchange.abort(new UpstreamError("gateway", "shutdown"));
      }
    },
    async close() {
      clearInterval(storeWatch);
      clearInterval(leakWatch);
      folding.stop();
      gateway.current.catalog.close();
      gateway.holds.close();
      await gateway.tracing?.close();
      await writer.close();
      // After a failed sync nothing may be written, and closing the database writes.
      if (!writer.isBroken && !store.close()) log.warn(WAL_KEPT);
      lock.release();
      log.flush();
    },
  };
}

/** Takes the instance lock, opens the store, and ends requests that an earlier run left open. Releases all on failure. */
function openLocked(
  { path, durability }: SqliteDatabase,
  onMigration: (progress: MigrationProgress) => void,
) {
  const lock = takeInstanceLock(path);
  if (!lock) throw alreadyRunning(path);
  let store: Store | undefined;
  try {
    const problem = hardLinkProblem(path);
    if (problem !== undefined) throw new StoreError(problem);
    store = openStore({ path, durability, serving: true, onMigration });
    return { lock, store, interrupted: store.interruptRunning() };
  } catch (error) {
    store?.close();
    lock.release();
    throw toStoreError(path, error);
  }
}

function alreadyRunning(path: string): StoreError {
  return new StoreError(
    `another gateway is running on this database: ${path}; stop it first, or give this one a database of its own`,
  );
}

type GatewayParts = Pick<
  Gateway,
  "current" | "store" | "writer" | "clock" | "random" | "log" | "metrics" | "tracing"
>;

function createGateway(parts: GatewayParts): Gateway & { current: ConfigSnapshot } {
  const { clock, metrics, store, writer } = parts;
  const inFlight = {
    exchanges: new Set<UpstreamExchange>(),
    disconnectedCount: 0,
    isAborting: false,
  };
  return {
    ...parts,
    knownKeys: new KnownKeys(store),
    holds: new LocalHolds({
      store,
      writer,
      clock,
      refuse: () => refuseWhileUnwritable({ inFlight, writer }),
    }),
    openMeters: new OpenMeters(clock),
    retryBudget: createRetryBudget(() => metrics.retryRefused()),
    health: new RouteHealth(clock),
    deadlines: new Deadlines(clock),
    inFlight,
  };
}

/** The values of the live metrics. */
function liveFigures(
  { gateway, requests, bodies }: Pick<App, "gateway" | "requests" | "bodies">,
  path: string,
): LiveFigures {
  const { current, inFlight, holds, writer, health } = gateway;
  return {
    openRequests: requests.open,
    openStreams: requests.openStreams,
    bodyBytes: bodies.heldBytes,
    walBytes: walSizeBytes(path),
    disconnectedAnswers: inFlight.disconnectedCount,
    held: holds.total(),
    queuedWrites: writer.queued,
    isStoreFull: writer.blockedBy === "full",
    isStoreLocked: writer.blockedBy === "busy",
    breakers: health.states(candidatesOf(current.catalog)),
  };
}

interface ServedStore {
  readonly path: string;
  readonly store: Store;
  readonly lock: InstanceLock;
  readonly log: Log;
}

/**
 * Ends the process if the database file or the lock file is removed or replaced. SQLite would go on and write charges to
 * the removed file. Without its lock file, a second gateway could start on the same database.
 */
function watchStore({ path, store, lock, log }: ServedStore, edges: Edges): Timer {
  const checkWalSize = createWalSizeWarning(
    () => walSizeBytes(path),
    (bytes) =>
      log.error(
        "the write-ahead log cannot be emptied: another program keeps a read transaction open, as `tollgate audit` does while it runs; end that program",
        { bytes },
      ),
  );
  const timer = setInterval(() => {
    checkWalSize();
    const isDatabaseLost = store.isFileReplaced();
    if (!isDatabaseLost && !lock.isFileReplaced()) return;
    clearInterval(timer);
    const lost = isDatabaseLost ? "database file" : "database's lock file";
    edges.fatal(`the ${lost} was removed or replaced while running`);
  }, FILE_WATCH_MS);
  return timer.unref();
}

/** How often the gateway looks for leaked requests. */
const LEAK_WATCH_MS = 30_000;

type Watched = Pick<Gateway, "openMeters" | "log">;

/** Looks for leaked requests until the timer is cleared. The timer does not keep the process alive. */
function watchLeakedRequests(gateway: Watched): Timer {
  return setInterval(() => settleLeaked(gateway), LEAK_WATCH_MS).unref();
}

/**
 * Settles leaked requests as failed and logs an error for each. A leak is a bug of the gateway: every path of a request
 * settles its meter.
 */
export function settleLeaked({ openMeters, log }: Watched): void {
  for (const requestId of openMeters.settleLeaked()) {
    log.error(
      "internal fault: a request did not end; its hold is released and nothing is charged",
      {
        request_id: requestId,
      },
    );
  }
}

/** Counts requests in flight. */
export interface RequestCount {
  begin(): void;
  end(): void;
  readonly open: number;
  /** Requests in flight whose answer is a stream that has begun. */
  openStreams: number;
  /** Resolves when no request is in flight. Only one caller may wait. */
  whenIdle(): Promise<void>;
}

function countRequests(): RequestCount {
  let open = 0;
  let onIdle: (() => void) | undefined;
  return {
    openStreams: 0,
    get open() {
      return open;
    },
    begin() {
      open += 1;
    },
    end() {
      open -= 1;
      if (open === 0) onIdle?.();
    },
    whenIdle: () =>
      new Promise((resolve) => {
        onIdle = resolve;
        if (open === 0) resolve();
      }),
  };
}
