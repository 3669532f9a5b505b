import { createHolds } from "./billing/holds.ts";
import { createOpenMeters } from "./billing/meter.ts";
import type { Config } from "./config/schema.ts";
import { candidatesOf, createCatalog } from "./gateway/catalog.ts";
import type { Gateway, ConfigSnapshot } from "./gateway/gateway.ts";
import { systemClock, type Clock } from "./lib/clock.ts";
import { idMaker, type NewId, systemRandom, type Random } from "./lib/random.ts";
import { formatRoubles } from "./lib/money.ts";
import { bodyBytesMax, createBodyBudget, type BodyBudget } from "./limits/bodyBudget.ts";
import {
  createFailedKeyLimits,
  type FailedKeyLimits,
  createRateLimiter,
  type RateLimiter,
} from "./limits/rateLimits.ts";
import { createFairQueue, type FairQueue } from "./limits/fairQueue.ts";
import { UpstreamError, type UpstreamExchange } from "./providers/upstream.ts";
import { RouteHealth } from "./routing/routeHealth.ts";
import { createRetryBudget } from "./routing/dispatch.ts";
import {
  createWalSizeWarning,
  describeOpenError,
  walSizeBytes,
  openStore,
  hardLinkProblem,
  startFolding,
  startWriter,
  StoreError,
  takeInstanceLock,
  type Folding,
  type InstanceLock,
  type Store,
} from "./store/store.ts";
import { createLog, type Log } from "./telemetry/log.ts";
import { silentMetrics, type LiveFigures, type Metrics } from "./telemetry/metrics.ts";

/** What a test may put in the place of the outside world. */
export interface Edges {
  clock: Clock;
  random: Random;
  /** Takes lines of the log, one or more, each with its line end. */
  writeLog(lines: string): void;
  /** The store can no longer be trusted: the process has to end now. */
  fatal(message: string): void;
}

/** The machine's own clock and chance, with what the caller makes of the log and of the end. */
export function systemEdges(own: Pick<Edges, "writeLog" | "fatal">): Edges {
  return { clock: systemClock, random: systemRandom, ...own };
}

/** A gateway that is open for business: everything but the HTTP server in front of it. */
export interface App {
  readonly gateway: Gateway;
  readonly rateLimiter: RateLimiter;
  readonly failedKeyLimits: FailedKeyLimits;
  readonly fairQueue: FairQueue;
  readonly bodies: BodyBudget;
  readonly newId: NewId;
  /** True from the moment the gateway takes no new requests. */
  isDraining: boolean;
  readonly requests: RequestCount;
  /**
   * Puts another config's providers, models, prices, limits and keep_requests in force; requests under way keep theirs.
   * A provider that is left alone because it refused its account is asked again.
   */
  reload(config: Config): void;
  /** Cuts off every request that is still under way: it fails, and nothing is charged. */
  cut(): void;
  /** Ends what was opened, in reverse order. Requests under way should be over. */
  close(): Promise<void>;
}

/** How often the gateway looks whether the database and its lock are still the files that it opened, and at the log's size. */
const FILE_WATCH_MS = 5000;

/** Said at the end of a stop that had to leave the log as it is; nothing is lost by it. */
const LOG_KEPT =
  "the write-ahead log (-wal file) still holds committed data: copy or move it together with the database file";

/** The composition root. Throws StoreError when the store cannot be served. */
export function openApp(config: Config, edges: Edges, metrics: Metrics = silentMetrics): App {
  const { clock, random } = edges;
  const log = createLog(config.log, (lines) => edges.writeLog(lines));
  const { path, durability } = config.database;
  const { lock, store, interrupted } = openLocked(config.database);
  // Nothing to worry about at a first start, and all that tells of a database that went away between two.
  if (store.isNew)
    log.info("created a new database: none existed at this path", { database: path });
  if (interrupted.count > 0) {
    const fields = { count: interrupted.count, held_rub: formatRoubles(interrupted.held) };
    log.warn(
      "the previous run left open requests: they are interrupted, their holds are released and nothing is charged",
      fields,
    );
  }
  const writer = startWriter(
    { path, durability },
    (message) => edges.fatal(message),
    (tookMs) => metrics.committed(tookMs),
  );
  const fold = ({ database }: Config): Folding =>
    startFolding({ writer, store }, clock, database.keepRequestsMs, (count) =>
      log.info("folded old requests into daily totals", { count }),
    );
  let folding = fold(config);
  const storeWatch = watchStore({ path, store, lock, log }, edges);
  const onUnasked = (provider: string, distrustMs: number): void =>
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
    catalog: createCatalog(next, clock, { before: before?.catalog, onUnasked }),
  });
  const gateway = gatewayOf({
    current: snapshotOf(config),
    store,
    writer,
    clock,
    random,
    log,
    metrics,
  });
  const forgottenWatch = watchLeakedRequests(gateway);
  const requests = countRequests();
  const bodies = createBodyBudget(bodyBytesMax());
  metrics.watch(() => liveFigures({ gateway, requests, bodies }, path));
  return {
    gateway,
    rateLimiter: createRateLimiter(clock),
    failedKeyLimits: createFailedKeyLimits(clock),
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
      folding = fold(next);
    },
    cut() {
      gateway.inFlight.isAborting = true;
      for (const exchange of gateway.inFlight.exchanges) {
        exchange.abort(new UpstreamError("gateway", "shutdown"));
      }
    },
    async close() {
      clearInterval(storeWatch);
      clearInterval(forgottenWatch);
      folding.stop();
      gateway.current.catalog.close();
      await writer.close();
      // Behind a failed sync nothing may be written, and closing does that.
      if (!writer.isBroken && !store.close()) log.warn(LOG_KEPT);
      lock.release();
      log.flush();
    },
  };
}

/** The store under the instance lock, with what an earlier life left running ended. Where that fails nothing stays taken. */
function openLocked({ path, durability }: Config["database"]) {
  const lock = takeInstanceLock(path);
  if (!lock) throw runsAlready(path);
  let store: Store | undefined;
  try {
    const problem = hardLinkProblem(path);
    if (problem !== undefined) throw new StoreError(problem);
    store = openStore({ path, durability, serving: true });
    return { lock, store, interrupted: store.interruptRunning() };
  } catch (error) {
    store?.close();
    lock.release();
    throw describeOpenError(path, error);
  }
}

function runsAlready(path: string): StoreError {
  return new StoreError(
    `another gateway is running on this database: ${path}; stop it first, or give this one a database of its own`,
  );
}

type GatewayParts = Pick<
  Gateway,
  "current" | "store" | "writer" | "clock" | "random" | "log" | "metrics"
>;

/** A gateway through which nothing has gone yet; a reload puts another setup in the place of its first. */
function gatewayOf(parts: GatewayParts): Gateway & { current: ConfigSnapshot } {
  const { clock, metrics } = parts;
  return {
    ...parts,
    holds: createHolds(),
    openMeters: createOpenMeters(clock),
    retryBudget: createRetryBudget(() => metrics.retryRefused()),
    health: new RouteHealth(clock),
    inFlight: { exchanges: new Set<UpstreamExchange>(), disconnectedCount: 0, isAborting: false },
  };
}

/** The figures of the moment, of a gateway whose store is at `path`. */
function liveFigures(
  { gateway, requests, bodies }: Pick<App, "gateway" | "requests" | "bodies">,
  path: string,
): LiveFigures {
  const { current, inFlight, holds, writer, health } = gateway;
  return {
    openRequests: requests.open,
    openStreams: requests.openStreams,
    bodyBytes: bodies.heldBytes,
    logBytes: walSizeBytes(path),
    disconnectedAnswers: inFlight.disconnectedCount,
    held: holds.total(),
    queuedWrites: writer.queued,
    isStoreFull: writer.blockedBy === "full",
    isStoreLocked: writer.blockedBy === "busy",
    breakers: health.states(candidatesOf(current.catalog)),
  };
}

/** What of the store is looked at while it is served. */
interface ServedStore {
  readonly path: string;
  readonly store: Store;
  readonly lock: InstanceLock;
  readonly log: Log;
}

/**
 * SQLite itself goes on without a word, writing charges to a file that is nowhere to be found. A lock whose file is
 * gone keeps nobody out: of two gateways on one database, each with holds that the other does not know, this one ends.
 */
function watchStore({ path, store, lock, log }: ServedStore, edges: Edges): Timer {
  const lookAtLog = createWalSizeWarning(
    () => walSizeBytes(path),
    (bytes) =>
      log.error(
        "the write-ahead log cannot be emptied: another program keeps a read transaction open, as `tollgate audit` does while it runs; end that program",
        { bytes },
      ),
  );
  const timer = setInterval(() => {
    lookAtLog();
    const isDatabaseLost = store.isFileReplaced();
    if (!isDatabaseLost && !lock.isFileReplaced()) return;
    clearInterval(timer);
    const lost = isDatabaseLost ? "database file" : "database's lock file";
    edges.fatal(`the ${lost} was removed or replaced while running`);
  }, FILE_WATCH_MS);
  return timer.unref();
}

/** How often the gateway looks for requests whose end a fault of its own forgot. */
const WATCH_MS = 30_000;

type Watched = Pick<Gateway, "openMeters" | "log">;

/** Looks for forgotten requests until the timer is cleared. The timer does not keep the process alive. */
function watchLeakedRequests(gateway: Watched): Timer {
  return setInterval(() => settleLeaked(gateway), WATCH_MS).unref();
}

/**
 * Gives back what is held for requests that should have ended long ago, and tells the operator: there is a
 * fault in the gateway, for each path of a request ends its meter.
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

/** Requests that were let in and are not over. */
export interface RequestCount {
  begin(): void;
  end(): void;
  readonly open: number;
  /** Those of them whose answer is a stream that has begun. */
  openStreams: number;
  /** Resolves when none is open; one at a time may wait. */
  whenNone(): Promise<void>;
}

function countRequests(): RequestCount {
  let open = 0;
  let none: (() => void) | undefined;
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
      if (open === 0) none?.();
    },
    whenNone: () =>
      new Promise((resolve) => {
        none = resolve;
        if (open === 0) resolve();
      }),
  };
}
