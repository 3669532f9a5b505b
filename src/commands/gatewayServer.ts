import { chmodSync } from "node:fs";
import { openApp, systemEdges, type App } from "../app.ts";
import type { Config, Listen } from "../config/schema.ts";
import { createServer } from "../http/server.ts";
import { version } from "../lib/version.ts";
import { CommandFailure } from "./failure.ts";
import { removeStaleSocket } from "./staleSocket.ts";

/** A gateway that answers on its address. */
export interface GatewayServer {
  readonly app: App;
  /** `http://127.0.0.1:8080`, or the path of its socket. */
  readonly address: string;
  /** Rejects when the gateway can no longer be trusted with money. */
  readonly broken: Promise<never>;
  /** Lets open requests finish for the grace of the config, cuts off the rest, and closes everything. */
  stop(): Promise<void>;
  /** Ends the grace. */
  hurry(): void;
}

type Server = NonNullable<ReturnType<typeof createServer>["server"]>;

/** How long the last bytes of cut off requests may take. */
const LAST_WORDS_MS = 3000;
const SOCKET_MODE = 0o660;

/** Opens the gateway and its listener. Throws StoreError, and CommandFailure for an address that is taken. */
export async function startGateway(config: Config): Promise<GatewayServer> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  const app = openApp(
    config,
    systemEdges((message) => {
      app.log.error("the store failed, the gateway stops", { problem: message });
      broken.reject(
        new CommandFailure(
          `the store failed: ${message}; nothing was lost, start again when the disk is sound`,
        ),
      );
    }),
  );
  try {
    const server = await listen(app, config);
    const address = addressOf(config.server.listen, server, config.server.tls !== undefined);
    app.log.info("listening", { address, version: version() });
    const hurry = Promise.withResolvers<void>();
    return {
      app,
      address,
      broken: broken.promise,
      stop: () => stop(app, server, config.server.shutdownGraceMs, hurry.promise),
      hurry: () => hurry.resolve(),
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

async function listen(app: App, config: Config): Promise<Server> {
  const { listen, tls } = config.server;
  const certificate = tls && { tls: { cert: Bun.file(tls.certFile), key: Bun.file(tls.keyFile) } };
  const where =
    listen.kind === "tcp" ? { hostname: listen.host, port: listen.port } : { unix: listen.path };
  if (listen.kind === "unix") await removeStaleSocket(listen.path);
  const elysia = createServer(app);
  try {
    elysia.listen({ ...where, ...certificate });
  } catch (cause) {
    throw new CommandFailure(`cannot listen on ${shownListen(listen)}: ${reasonOf(cause)}`, {
      cause,
    });
  }
  if (!elysia.server) throw new Error("the server did not start");
  if (listen.kind === "unix") chmodSync(listen.path, SOCKET_MODE);
  return elysia.server;
}

async function stop(
  app: App,
  server: Server,
  graceMs: number,
  hurry: Promise<void>,
): Promise<void> {
  app.isDraining = true;
  app.log.info("draining");
  await Promise.race([app.requests.whenNone(), Bun.sleep(graceMs), hurry]);
  app.cut();
  await Promise.race([app.requests.whenNone(), Bun.sleep(LAST_WORDS_MS)]);
  await Promise.race([server.stop(false), Bun.sleep(LAST_WORDS_MS)]);
  await server.stop(true);
  app.log.info("stopped");
  await app.close();
}

function addressOf(listen: Listen, server: Server, isTls: boolean): string {
  if (listen.kind === "unix") return listen.path;
  const host = listen.host.includes(":") ? `[${listen.host}]` : listen.host;
  return `${isTls ? "https" : "http"}://${host}:${server.port}`;
}

function shownListen(listen: Listen): string {
  return listen.kind === "unix" ? listen.path : `${listen.host}:${listen.port}`;
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "EADDRINUSE") return "another program listens there";
  if (code === "EACCES") return "this user may not";
  return typeof code === "string" ? code : "the system refused it";
}
