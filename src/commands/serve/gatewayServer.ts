import { openApp, systemEdges, type App, type Edges } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import { createServer } from "../../http/server.ts";
import { version } from "../../lib/version.ts";
import type { ReadableMetrics } from "../../telemetry/metrics.ts";
import { CommandFailure } from "../cli/print.ts";
import { openListener, type Listener } from "./listener.ts";

/** A gateway that answers on its address. */
export interface GatewayServer {
  readonly app: App;
  /** What it was started with; some settings of a later config count at the next start only. */
  readonly startedWith: Config;
  readonly address: string;
  /** Rejects when the gateway can no longer do its work, or be trusted with money. */
  readonly broken: Promise<never>;
  /** Takes up the certificate of the config in force, if it listens with one. */
  renewCertificate(): void;
  /** Lets open requests finish for the grace of the config, or until `cutNow`, cuts off the rest, and closes everything. */
  stop(cutNow: Promise<void>): Promise<void>;
}

/** How long the last bytes of requests that were cut off may take at least. */
const LAST_WORDS_MS = 3000;
/**
 * How long the ends of requests may take once they were cut off. The end of an answer is patient with the store for
 * ten seconds, and its last try waits five for a lock: by then each is committed, or its client was told of a failure.
 */
const ENDS_WITHIN_MS = 16_000;
const ENDS_STEP_MS = 50;

/** Whoever may write to the socket may try keys: its owner and group. */
const SOCKET_MODE = 0o660;
/** Metrics ask for no key: they are their owner's alone. */
const METRICS_SOCKET_MODE = 0o600;

/** Opens the gateway and its listeners. Throws StoreError, and CommandFailure for an address that is taken. */
export async function startGateway(
  config: Config,
  writeLog: Edges["writeLog"],
): Promise<GatewayServer> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  const fatal = (message: string): void => {
    app.gateway.log.error("the database failed, the gateway stops", { problem: message });
    app.gateway.log.flush();
    broken.reject(new CommandFailure(storeFailure(message)));
  };
  const metrics = config.metrics && (await loadMetrics());
  const app = openApp(config, systemEdges({ writeLog, fatal }), metrics);
  let scrapes: Listener | undefined;
  try {
    scrapes = metrics && (await listenForScrapes(metrics, config.metrics));
    if (scrapes) app.gateway.log.info("listening for metrics", { address: scrapes.address });
    const place = { ...config.server, socketMode: SOCKET_MODE };
    const listener = await openListener(() => createServer(app), place);
    const { bun, sqlite } = process.versions;
    app.gateway.log.info("listening", {
      address: listener.address,
      version: version(),
      bun,
      sqlite,
    });
    return {
      app,
      startedWith: config,
      address: listener.address,
      broken: broken.promise,
      renewCertificate() {
        renewCertificate(app, listener).catch((error: unknown) => broken.reject(error));
      },
      async stop(cutNow) {
        const graceOver = Promise.race([Bun.sleep(config.server.shutdownGraceMs), cutNow]);
        await drain(app, graceOver);
        app.abortAll();
        // What is cut off says so, and a whole answer may still be on its way to a client that reads slowly.
        const lastWordsOver = Bun.sleep(LAST_WORDS_MS);
        const endsOver = Bun.sleep(ENDS_WITHIN_MS);
        const writtenOrLate = lastWordsOver.then(() => Promise.race([untilWritten(app), endsOver]));
        await Promise.race([app.requests.whenIdle(), writtenOrLate]);
        await listener.close(lastWordsOver, graceOver);
        // Whose client did not read hears of the end only now, and the books are to hear of it too.
        await Promise.race([app.requests.whenIdle(), endsOver]);
        await scrapes?.close(lastWordsOver);
        app.gateway.log.info("stopped");
        await app.close();
      },
    };
  } catch (error) {
    await scrapes?.close(Promise.resolve());
    await app.close();
    throw error;
  }
}

async function renewCertificate({ gateway }: App, listener: Listener): Promise<void> {
  const problem = await listener.renewCertificate(gateway.current.config.server.tls);
  if (problem !== undefined)
    gateway.log.error("certificate rejected, the old certificate stays in use", { problem });
}

/** Loaded only where they are asked for: a start without them need not wait for it. */
async function loadMetrics(): Promise<ReadableMetrics> {
  const { createPrometheusMetrics } = await import("../../telemetry/prometheus.ts");
  return createPrometheusMetrics();
}

async function listenForScrapes(
  metrics: ReadableMetrics,
  config: Config["metrics"],
): Promise<Listener | undefined> {
  if (!config) return undefined;
  const { createMetricsServer } = await import("../../http/metrics.ts");
  return openListener(() => createMetricsServer(metrics), {
    listen: config.listen,
    tls: undefined,
    socketMode: METRICS_SOCKET_MODE,
    purpose: "metrics",
  });
}

/** The listeners stay open while requests finish: the public one tells new ones, and health checks, that it drains. */
async function drain(app: App, graceOver: Promise<void>): Promise<void> {
  app.isDraining = true;
  app.gateway.log.info("draining");
  await Promise.race([app.requests.whenIdle(), graceOver]);
}

/** No answer waits for the books any more: whose connection were cut amid that would pay for what it never got. */
async function untilWritten({ gateway: { openMeters }, requests }: App): Promise<void> {
  // A stream that has begun and is not ending waits for its client.
  while (openMeters.settlingCount > 0 || openMeters.count > requests.openStreams)
    await Bun.sleep(ENDS_STEP_MS);
  // What was committed last leaves.
  await Bun.sleep(ENDS_STEP_MS);
}

function storeFailure(message: string): string {
  return `the database failed: ${message}; check its disk and its files, then start the gateway again`;
}
