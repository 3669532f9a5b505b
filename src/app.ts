import { OpenMeters } from "./billing/openMeters.ts";
import type { Config, TlsConfig } from "./config/schema.ts";
import type { DatabaseServices, ServedDatabase, UpgradeChoice } from "./database/servedDatabase.ts";
import { refuseWhileUnwritable } from "./gateway/admission/admit.ts";
import { candidatesOf, createCatalog } from "./gateway/catalog.ts";
import type { ConfigSnapshot, Gateway } from "./gateway/gateway.ts";
import { probeRoute } from "./gateway/ownProbe.ts";
import { LargeBodies } from "./gateway/largeBodies/largeBodies.ts";
import { type EndedStream, LeftAnswers } from "./gateway/leftAnswers.ts";
import { type ServedName, UnpricedServices } from "./gateway/unpricedServices.ts";
import { type Clock, Deadlines, systemClock } from "./lib/clock.ts";
import { idMaker, type NewId, type Random, systemRandom } from "./lib/random.ts";
import { type BodyBudget, bodyBytesMax, createBodyBudget } from "./limits/bodyBudget.ts";
import { createFairQueue, type FairQueue } from "./limits/fairQueue.ts";
import { PipelineLimit } from "./limits/pipelineLimit.ts";
import { type LiveReplicas, LocalRates, type RateLimiter } from "./limits/rateLimits.ts";
import type { FindCells } from "./limits/keyRates.ts";
import { ProviderCounts } from "./limits/providerCounts.ts";
import type { SharedRates, SharedTimes } from "./limits/sharedRates.ts";
import {
  createFailedKeyLimits,
  createWrongCodeLimits,
  type FailedKeyLimits,
  type Guesser,
  type WrongCodeLimits,
} from "./limits/wrongCodes.ts";
import { Delivery } from "./notices/delivery.ts";
import { NoticeWatch } from "./notices/watch.ts";
import type { KeyFailure } from "./providers/registry.ts";
import { UpstreamError, type UpstreamExchange } from "./providers/upstream.ts";
import type { Candidate } from "./routing/candidates.ts";
import { createRetryBudget } from "./routing/attempts.ts";
import { type HealthNews, RouteHealth } from "./routing/routeHealth.ts";
import { PromptCounts } from "./routing/promptCounts.ts";
import { RouteSpeeds, type SpeedNews } from "./routing/routeSpeeds.ts";
import { type Folding, startFolding } from "./store/open.ts";
import { createLog, type Log } from "./telemetry/log.ts";
import { type LiveFigures, type Metrics, silentMetrics } from "./telemetry/metrics.ts";
import type { Tracing } from "./telemetry/tracing.ts";
import { type MainWriter, openSqliteDatabase, openSqliteOfProcess } from "./database/sqlite.ts";

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

/**
 * `draining`: it serves, /healthz answers 503, and each answer ends its connection, so that clients and load balancers
 * turn to another gateway. `refusing`: it refuses new requests.
 */
type Phase = "serving" | "draining" | "refusing";

/** An open gateway: everything but the HTTP server. */
export interface App {
  readonly gateway: Gateway;
  readonly rateLimiter: RateLimiter;
  readonly failedKeyLimits: FailedKeyLimits;
  readonly wrongCodeLimits: WrongCodeLimits;
  readonly fairQueue: FairQueue;
  readonly bodies: BodyBudget;
  readonly pipelines: PipelineLimit;
  readonly newId: NewId;
  /** Other processes listen at the same port. */
  readonly sharesPort: boolean;
  /** Whether the gateway serves or stops. */
  phase: Phase;
  readonly requests: RequestCount;
  readonly notices: NoticeWatch;
  /** Throws if the database cannot be read. */
  requireReadable(): void;
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

/** Starts to send traces. */
export type StartTracing = (
  services: Pick<Gateway, "clock" | "random" | "log" | "metrics">,
) => Tracing;

/** A backup before an upgrade, which nothing stops. */
const USUAL_UPGRADE: UpgradeChoice = { wantsBackup: true, stopped: new Promise(() => undefined) };

/** What one of several serving processes tells the other ones. */
export type News =
  | { readonly kind: "health"; readonly health: HealthNews }
  | { readonly kind: "speed"; readonly speed: SpeedNews }
  | { readonly kind: "streamEnded"; readonly stream: EndedStream }
  | { readonly kind: "wrongCode"; readonly guesser: Guesser }
  | { readonly kind: "unpriced"; readonly served: ServedName };

/** What one of several serving processes of a gateway has of the main process and of the other ones. */
export interface ServingProcess {
  /** How many serving processes the gateway has. */
  readonly count: number;
  /** What they share of keys, providers and addresses. */
  readonly cells: FindCells;
  readonly addresses: FindCells;
  /** The writer of a SQLite file. */
  readonly writer: MainWriter;
  tell(news: News): void;
  /** Calls the listener with what the other processes tell. */
  onNews(listener: (news: News) => void): void;
}

/** Options of an app besides config and edges. */
export interface AppOptions {
  /** Set for one of several serving processes. */
  readonly process?: ServingProcess | undefined;
  readonly metrics?: Metrics | undefined;
  readonly startTracing?: StartTracing | undefined;
  readonly upgrade?: UpgradeChoice | undefined;
  /** The times of the limits server. Tests use other ones. */
  readonly limitsTimes?: Partial<SharedTimes> | undefined;
}

/** The composition root. Rejects with StoreError if the database cannot be opened. */
export async function openApp(
  config: Config,
  edges: Edges,
  options: AppOptions = {},
): Promise<App> {
  const { metrics = silentMetrics, startTracing, upgrade = USUAL_UPGRADE } = options;
  const { process: own } = options;
  const { clock, random } = edges;
  const log = createLog(config.log, (lines) => edges.writeLog(lines));
  const newId = idMaker(clock, random);
  const inFlight = {
    exchanges: new Set<UpstreamExchange>(),
    isAborting: false,
  };
  const database = await openDatabase(
    config.database,
    {
      clock,
      random,
      log,
      metrics,
      upgrade,
      refuse: () => refuseWhileUnwritable(gateway),
      fatal(message) {
        log.error("database_failed", { problem: message });
        log.flush();
        edges.fatal(message);
      },
    },
    own,
  );
  const { store, writer, holds, knownKeys } = database;
  // The processes of one gateway share its part of a limit.
  const replicas = (): number => Math.max(1, database.replicas() / (own?.count ?? 1));
  const sharedRates = await openLimitsServer(config, { clock, log }, replicas, options);
  const foldingFor = ({ database: { keepRequestsMs } }: Config): Folding =>
    startFolding({ writer, store }, clock, keepRequestsMs, {
      onFolded: (count) => log.info("folded old requests into daily totals", { count }),
      onClockDoubt: (doubt) => log.warn(doubt === "ahead" ? "clock_ahead" : "clock_behind"),
    });
  let folding = foldingFor(config);
  const onUnsolicitedData = (provider: string, distrustMs: number): void =>
    log.warn("unrequested_data", {
      provider,
      cooldown_ms: distrustMs,
    });
  const counts = new ProviderCounts(clock, replicas, own?.cells);
  const onKeyFailure = (provider: string, { problem, hasKey, retryMs }: KeyFailure): void => {
    const fields = { provider, problem, cooldown_ms: retryMs };
    if (hasKey) log.warn("provider_key_not_renewed", fields);
    else log.error("provider_without_key", fields);
  };
  const snapshotOf = (next: Config, before?: ConfigSnapshot): ConfigSnapshot => {
    const catalog = createCatalog(next, clock, {
      previous: before?.catalog,
      onUnsolicitedData,
      counts,
      onKeyFailure,
    });
    // Keys that expire are there before the first request, if possible.
    for (const { key } of catalog.providers.values()) void key?.ready();
    return { config: next, loadedAt: clock.epochMs(), catalog };
  };
  const gateway: Gateway & { current: ConfigSnapshot } = {
    current: snapshotOf(config),
    store,
    writer,
    knownKeys,
    holds,
    clock,
    random,
    log,
    metrics,
    tracing: startTracing?.({ clock, random, log, metrics }),
    openMeters: new OpenMeters(clock),
    retryBudget: createRetryBudget(() => metrics.retryRefused()),
    health: new RouteHealth({
      clock,
      probe: (candidate) => probeRoute(gateway, candidate, newId("req")),
      tell: own && ((health) => own.tell({ kind: "health", health })),
    }),
    deadlines: new Deadlines(clock),
    inFlight,
    speeds: new RouteSpeeds(own && ((speed) => own.tell({ kind: "speed", speed }))),
    promptCounts: new PromptCounts(),
    leftAnswers: new LeftAnswers(
      own?.count,
      own && ((stream) => own.tell({ kind: "streamEnded", stream })),
    ),
    unpriced: new UnpricedServices({
      clock,
      log,
      metrics,
      tell: own && ((served) => own.tell({ kind: "unpriced", served })),
    }),
    largeBodies: new LargeBodies(clock),
  };
  const leakWatch = watchLeakedRequests(gateway);
  const delivery = new Delivery({ clock, random, log });
  const notices = new NoticeWatch({
    clock,
    log,
    store,
    changeNotice: (change) => database.changeNotice(change),
    notify: () => gateway.current.config.notify,
    live() {
      const { health, current } = gateway;
      const candidates = candidatesOf(current.catalog);
      return {
        blockedBy: database.blockedBy,
        refusedProviders: health.refusedProviders(candidates),
        refusedOrganizations: health.refusedOrganizations(candidates),
        providersWithoutKey: health.providersWithoutKey(candidates),
        expensiveRoutes: gateway.unpriced.recent(),
      };
    },
    send: (notice, recipients, settled) => delivery.send(notice, recipients, settled),
  });
  const requests = countRequests();
  const bodies = createBodyBudget(bodyBytesMax() / (own?.count ?? 1));
  let { tls } = config.server;
  metrics.watch(() =>
    liveFigures({ gateway, requests, bodies, notices, database, sharedRates, tls }),
  );
  const wrongCodeLimits = createWrongCodeLimits(
    clock,
    replicas,
    own && ((guesser) => own.tell({ kind: "wrongCode", guesser })),
  );
  own?.onNews((news) => hear(news, gateway, wrongCodeLimits));
  return {
    gateway,
    rateLimiter: sharedRates ?? new LocalRates(clock, replicas, own?.cells),
    failedKeyLimits: createFailedKeyLimits(clock, replicas, own?.addresses),
    wrongCodeLimits,
    fairQueue: createFairQueue(clock, database.readsBlock),
    bodies,
    pipelines: new PipelineLimit(),
    newId,
    sharesPort: own !== undefined,
    phase: "serving",
    requests,
    notices,
    requireReadable: () => database.requireReadable(),
    reload(next) {
      const before = gateway.current;
      gateway.current = snapshotOf(next, before);
      before.catalog.close(gateway.current.catalog);
      // A reload renews the certificate. It cannot add TLS or remove it.
      tls &&= next.server.tls ?? tls;
      gateway.health.resetAccountCooldowns();
      if (next.database.keepRequestsMs === before.config.database.keepRequestsMs) return;
      folding.stop();
      folding = foldingFor(next);
    },
    abortAll() {
      inFlight.isAborting = true;
      database.writer.stopping();
      for (const exchange of inFlight.exchanges) {
        exchange.abort(new UpstreamError("gateway", "shutdown"));
      }
    },
    async close() {
      clearInterval(leakWatch);
      folding.stop();
      await notices.close();
      await delivery.close();
      gateway.current.catalog.close();
      gateway.largeBodies.close();
      await gateway.tracing?.close();
      await sharedRates?.close();
      await database.close();
      log.flush();
    },
  };
}

/** Takes over what another process of the gateway has learned. */
function hear(news: News, gateway: Gateway, wrongCodeLimits: WrongCodeLimits): void {
  const { catalog } = gateway.current;
  switch (news.kind) {
    case "health": {
      const provider = catalog.providers.get(news.health.provider);
      if (provider) gateway.health.hear(provider, news.health);
      return;
    }
    case "speed": {
      const { speed } = news;
      const isOfRoute = ({ provider, route }: Candidate): boolean =>
        provider.id === speed.provider && route.model === speed.model;
      const candidate = candidatesOf(catalog).find(isOfRoute);
      if (candidate) gateway.speeds.hear(candidate, speed, gateway.clock.monotonicMs());
      return;
    }
    case "streamEnded":
      return gateway.leftAnswers.hear(news.stream, gateway.clock.monotonicMs());
    case "unpriced":
      return gateway.unpriced.hear(news.served);
    case "wrongCode":
      return wrongCodeLimits.hear(news.guesser);
  }
}

/** The limits server of the config. Loaded on demand: most gateways count by themselves. */
async function openLimitsServer(
  { limits: { redis } }: Config,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  replicas: LiveReplicas,
  { limitsTimes: times, process: own }: AppOptions,
): Promise<SharedRates | undefined> {
  if (redis === undefined) return undefined;
  const { openSharedRates, logLimitsServer } = await import("./limits/sharedRates.ts");
  return openSharedRates({
    url: redis.url,
    clock,
    replicas,
    cells: own?.cells,
    listener: logLimitsServer(log),
    ...(times && { times }),
  });
}

/** The values of the live metrics. */
function liveFigures({
  gateway,
  requests,
  bodies,
  notices,
  database,
  sharedRates,
  tls,
}: Pick<App, "gateway" | "requests" | "bodies" | "notices"> & {
  readonly database: ServedDatabase;
  readonly sharedRates: SharedRates | undefined;
  readonly tls: TlsConfig | undefined;
}): LiveFigures {
  const { current, leftAnswers, holds, writer, health } = gateway;
  return {
    openRequests: requests.open,
    openStreams: requests.openStreams,
    bodyBytes: bodies.heldBytes,
    disconnectedAnswers: leftAnswers.count,
    held: holds.total(),
    queuedWrites: writer.queued,
    blockedBy: database.blockedBy,
    breakers: health.states(candidatesOf(current.catalog)),
    notices: notices.counts(),
    sharedLimits: sharedRates?.figures(),
    certificateExpiresAt: tls?.expiresAt,
    ...database.figures(),
  };
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
    log.error("request_without_end", {
      request_id: requestId,
    });
  }
}

/** A request in flight. `peer` names its connection; undefined on a unix socket, and after the client has disconnected. */
export interface RequestInFlight {
  readonly peer: string | undefined;
}

/** Counts requests in flight. */
export interface RequestCount {
  begin(request: RequestInFlight): void;
  end(request: RequestInFlight): void;
  readonly inFlight: ReadonlySet<RequestInFlight>;
  readonly open: number;
  /** Requests in flight whose answer is a stream that has begun. */
  openStreams: number;
  /** Resolves when no request is in flight. Only one caller may wait. */
  whenIdle(): Promise<void>;
}

function countRequests(): RequestCount {
  const inFlight = new Set<RequestInFlight>();
  let onIdle: (() => void) | undefined;
  return {
    openStreams: 0,
    inFlight,
    get open() {
      return inFlight.size;
    },
    begin(request) {
      inFlight.add(request);
    },
    end(request) {
      inFlight.delete(request);
      if (inFlight.size === 0) onIdle?.();
    },
    whenIdle: () =>
      new Promise((resolve) => {
        onIdle = resolve;
        if (inFlight.size === 0) resolve();
      }),
  };
}

/** Opens the database of the config for a serving gateway. Rejects with StoreError. */
async function openDatabase(
  database: Config["database"],
  services: DatabaseServices,
  own: ServingProcess | undefined,
): Promise<ServedDatabase> {
  if (database.engine === "sqlite")
    return own
      ? openSqliteOfProcess(database, services, own.writer)
      : await openSqliteDatabase(database, services);
  // Loaded on demand: most gateways have a SQLite file, and their start stays as fast as it is.
  const { openPostgresDatabase } = await import("./database/postgres.ts");
  return await openPostgresDatabase(database, services);
}
