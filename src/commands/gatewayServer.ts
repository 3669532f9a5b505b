import { openApp, systemEdges, type App, type Edges } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { version } from "../lib/version.ts";
import { CommandFailure } from "./failure.ts";
import { openListener, type Listener } from "./listener.ts";

/** A gateway that answers on its address. */
export interface GatewayServer {
  readonly app: App;
  readonly address: string;
  /** Rejects when the gateway can no longer do its work, or be trusted with money. */
  readonly broken: Promise<never>;
  /** Takes up the certificate's files again, if it listens with one. */
  renewCertificate(): void;
  /** Lets open requests finish for the grace of the config, or until `hurry`, cuts off the rest, and closes everything. */
  stop(hurry: Promise<void>): Promise<void>;
}

/** How long the last bytes of requests that were cut off may take. */
const LAST_WORDS_MS = 3000;

/** Opens the gateway and its listener. Throws StoreError, and CommandFailure for an address that is taken. */
export async function startGateway(
  config: Config,
  edges: Pick<Partial<Edges>, "writeLog"> = {},
): Promise<GatewayServer> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  const fatal = (message: string): void => {
    app.log.error("the store failed, the gateway stops", { problem: message });
    app.log.flush();
    broken.reject(new CommandFailure(storeFailure(message)));
  };
  const app = openApp(config, { ...systemEdges(fatal), ...edges });
  try {
    const listener = await openListener(app, config.server);
    app.log.info("listening", { address: listener.address, version: version() });
    return {
      app,
      address: listener.address,
      broken: broken.promise,
      renewCertificate() {
        const { tls } = app.gateway.current.config.server;
        listener.renewCertificate(tls).catch((error: unknown) => broken.reject(error));
      },
      stop: (hurry) => stop(app, listener, config.server.shutdownGraceMs, hurry),
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

/** The listener stays open while requests finish: it tells new ones, and health checks, that it drains. */
async function stop(
  app: App,
  listener: Listener,
  graceMs: number,
  hurry: Promise<void>,
): Promise<void> {
  app.isDraining = true;
  app.log.info("draining");
  await Promise.race([app.requests.whenNone(), Bun.sleep(graceMs), hurry]);
  app.cut();
  await Promise.race([app.requests.whenNone(), Bun.sleep(LAST_WORDS_MS)]);
  await listener.close(LAST_WORDS_MS);
  app.log.info("stopped");
  await app.close();
}

function storeFailure(message: string): string {
  return `the store failed: ${message}; start again when its disk and its file are in order`;
}
