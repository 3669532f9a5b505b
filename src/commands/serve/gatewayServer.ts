import {
  openApp,
  systemEdges,
  type App,
  type AppOptions,
  type Edges,
  type StartTracing,
} from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import { watchConnections } from "../../http/connections/connectionWatch.ts";
import { quietMoment } from "../../http/connections/quietMoment.ts";
import { createMetricsServer, createServer } from "../../http/server.ts";
import { version } from "../../lib/version.ts";
import { createPoster } from "../../providers/upstream.ts";
import type { Log } from "../../telemetry/log.ts";
import type { ReadableMetrics } from "../../telemetry/metrics.ts";
import { CommandFailure } from "../cli/print.ts";
import { openListener, type Listener } from "./listener.ts";

/** A running gateway, in one process or in several. */
export interface RunningGateway {
  /** The config of the start. Some settings of a later config need a restart. */
  readonly startedWith: Config;
  readonly log: Log;
  /** Rejects when the database or a listener fails for good. */
  readonly broken: Promise<never>;
  /**
   * Puts providers, models, prices, limits and keep_requests of another config in force. With TLS it uses its certificate for
   * new connections.
   */
  reload(config: Config): void;
  /** Counts a reload. */
  reloaded(isTaken: boolean): void;
  /**
   * Serves on for the drain delay, lets open requests finish during the grace, aborts the rest, and closes everything.
   * `cutNow` ends delay and grace.
   */
  stop(cutNow: Promise<void>): Promise<void>;
}

/** A gateway in this process, or one of its serving processes. */
export interface GatewayServer extends RunningGateway {
  readonly app: App;
  readonly address: string;
  readonly metrics: ReadableMetrics | undefined;
}

/** The time to send the last bytes of aborted requests. */
const LAST_BYTES_MS = 3000;
/**
 * The time to settle aborted requests. Settling retries the store for ten seconds, and its last try waits five for a
 * lock. Then each request is settled, or its client has got an error. A charge above its hold may retry for longer: the
 * stop ends it, and nothing is charged.
 */
const SETTLE_TIMEOUT_MS = 16_000;
const SETTLE_POLL_MS = 50;

/** The owner and the group may connect. Requests need a key. */
const SOCKET_MODE = 0o660;
/** Only the owner may connect. Metrics need no key. */
const METRICS_SOCKET_MODE = 0o600;

/**
 * Opens the gateway and its listeners. One of several serving processes (`process`) has no listener for metrics, and its main
 * process logs what happens to the gateway. Throws StoreError, and CommandFailure for an address that cannot be used.
 */
export async function startGateway(
  config: Config,
  writeLog: Edges["writeLog"],
  options: Pick<AppOptions, "upgrade" | "process"> & {
    /** The config in force, if a reload has replaced the one of the start. */
    readonly reloaded?: Config | undefined;
  } = {},
): Promise<GatewayServer> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  const fatal = (message: string): void => broken.reject(databaseFailure(config, message));
  const metrics = config.metrics && (await loadMetrics());
  const startTracing = config.telemetry && (await loadTracing(config.telemetry));
  const edges = systemEdges({ writeLog, fatal });
  const app = await openApp(config, edges, { metrics, startTracing, ...options });
  if (options.reloaded) app.reload(options.reloaded);
  const isAlone = options.process === undefined;
  return await listen(app, config, { metrics, broken, isAlone });
}

/** The error that ends a gateway whose database has failed. */
export function databaseFailure({ database }: Config, message: string): CommandFailure {
  // The server's own log tells about its disk.
  const advice =
    database.engine === "sqlite"
      ? "; check its disk and its files, then start the gateway again"
      : "";
  return new CommandFailure(`the database failed: ${message}${advice}`);
}

interface Listening {
  readonly metrics: ReadableMetrics | undefined;
  readonly broken: PromiseWithResolvers<never>;
  readonly isAlone: boolean;
}

/** Opens the listeners. Closes the gateway if one cannot be opened. */
async function listen(
  app: App,
  config: Config,
  { metrics, broken, isAlone }: Listening,
): Promise<GatewayServer> {
  const { log } = app.gateway;
  let metricsListener: Listener | undefined;
  try {
    if (metrics && isAlone) metricsListener = await openMetricsListener(metrics, config.metrics);
    if (metricsListener) log.info("listening for metrics", { address: metricsListener.address });
    const options = {
      ...config.server,
      tls: config.server.tls && app.gateway.current.config.server.tls,
      socketMode: SOCKET_MODE,
      quietMoment: (port: number | undefined) => quietMoment(app, port),
    };
    const listener = await openListener(() => createServer(app), options);
    const ports = [listener, metricsListener].flatMap((opened) => opened?.port ?? []);
    const endWatch = await watchConnections(app, new Set(ports));
    const { bun, sqlite } = process.versions;
    if (isAlone)
      log.info("listening", { address: listener.address, version: version(), bun, sqlite });
    return {
      app,
      startedWith: config,
      log,
      metrics,
      address: listener.address,
      broken: broken.promise,
      reload(next) {
        app.reload(next);
        renewCertificate(app, listener).catch((error: unknown) => broken.reject(error));
      },
      reloaded: (isTaken) => app.gateway.metrics.reloaded(isTaken),
      async stop(cutNow) {
        const { drainDelayMs, shutdownGraceMs } = config.server;
        app.phase = "draining";
        if (isAlone) log.info("draining", { duration_ms: drainDelayMs });
        await Promise.race([Bun.sleep(drainDelayMs), cutNow]);
        endWatch();
        await listener.refuse();
        app.phase = "refusing";
        log.info("refusing new requests", { count: app.requests.open });
        const graceOver = Promise.race([Bun.sleep(shutdownGraceMs), cutNow]);
        await Promise.race([app.requests.whenIdle(), graceOver]);
        app.abortAll();
        // Aborted requests send an error, and a slow client may still be reading a complete answer.
        const lastBytesOver = Bun.sleep(LAST_BYTES_MS);
        const settleOver = Bun.sleep(SETTLE_TIMEOUT_MS);
        const settled = lastBytesOver.then(() => Promise.race([untilSettled(app), settleOver]));
        await Promise.race([app.requests.whenIdle(), settled]);
        await listener.close(lastBytesOver, graceOver);
        // A request whose client did not read ends when its connection is closed. It is settled too.
        await Promise.race([app.requests.whenIdle(), settleOver]);
        await metricsListener?.close(lastBytesOver);
        if (isAlone) log.info("stopped");
        await app.close();
      },
    };
  } catch (error) {
    await metricsListener?.close(Promise.resolve());
    await app.close();
    throw error;
  }
}

async function renewCertificate({ gateway }: App, listener: Listener): Promise<void> {
  const problem = await listener.renewCertificate(gateway.current.config.server.tls);
  if (problem !== undefined) gateway.log.error("certificate_rejected", { problem });
}

/** Loaded on demand, because it delays the start. */
async function loadMetrics(): Promise<ReadableMetrics> {
  const { createPrometheusMetrics } = await import("../../telemetry/prometheus.ts");
  return createPrometheusMetrics();
}

/** The trace collector gets this long for a batch: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ */
const COLLECTOR_TIMEOUT_MS = 10_000;

/** Loaded on demand, because most gateways send no traces. */
export async function loadTracing({
  otlp: address,
  headers,
}: NonNullable<Config["telemetry"]>): Promise<StartTracing> {
  const { createTracing } = await import("../../telemetry/otlp.ts");
  return (services) => {
    const options = { baseUrl: address, headers, connectTimeoutMs: COLLECTOR_TIMEOUT_MS };
    const poster = createPoster({ ...options, timeoutMs: COLLECTOR_TIMEOUT_MS });
    const post = async (body: string): Promise<number> =>
      (await poster.post("/v1/traces", body)).status;
    return createTracing({ address, post, close: () => poster.close() }, services);
  };
}

export async function openMetricsListener(
  metrics: ReadableMetrics,
  config: Config["metrics"],
): Promise<Listener | undefined> {
  if (!config) return undefined;
  return openListener(() => createMetricsServer(metrics), {
    listen: config.listen,
    tls: undefined,
    socketMode: METRICS_SOCKET_MODE,
    purpose: "metrics",
  });
}

/**
 * Waits until no answer waits for its settlement. A client whose connection is closed before would pay for an answer
 * that it did not get.
 */
async function untilSettled({ gateway: { openMeters }, requests }: App): Promise<void> {
  // The other open meters belong to streams that wait for their clients.
  while (openMeters.settlingCount > 0 || openMeters.count > requests.openStreams)
    await Bun.sleep(SETTLE_POLL_MS);
  // Time to send the answer that was committed last.
  await Bun.sleep(SETTLE_POLL_MS);
}
