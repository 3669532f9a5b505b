import { lookup } from "node:dns/promises";
import { chmodSync, lstatSync, rmSync } from "node:fs";
import type { Server } from "bun";
import type { Listen, TlsConfig } from "../../config/schema.ts";
import { lengthenQueues } from "../../http/connections/clientSockets.ts";
import { CommandFailure } from "../cli/print.ts";
import { REWRITE_UNIT } from "../service/unit.ts";
import { errorCode, fileErrorReason } from "../../lib/systemError.ts";

export interface Listener {
  /** `http://127.0.0.1:8080`, or the path of the socket. */
  readonly address: string;
  /** Undefined for a socket. */
  readonly port: number | undefined;
  /**
   * Uses this certificate for new connections; open ones stay. If it is unusable, the old one stays in use and the
   * promise resolves with the reason. Rejects if listening with the old one fails too. Without TLS it does nothing.
   */
  renewCertificate(tls: TlsConfig | undefined): Promise<string | undefined>;
  /**
   * Refuses new connections, and closes idle ones. A request that has arrived by then is served. Every other
   * connection is closed after its answer.
   */
  refuse(): Promise<void>;
  /** Refuses new connections. Closes idle ones after `idleCut`, and those with a request in flight after `cut`. */
  close(idleCut: Promise<unknown>, cut?: Promise<unknown>): Promise<void>;
}

export interface ListenerOptions {
  readonly listen: Listen;
  readonly tls: TlsConfig | undefined;
  /** The file mode of a unix socket. */
  readonly socketMode: number;
  /** The purpose of a listener that is not the public one, for error messages. */
  readonly purpose?: string;
  /** Resolves when no request is lost if the listener at this port is closed in the same turn. Undefined port: a socket. */
  readonly quietMoment?: (port: number | undefined) => Promise<void>;
}

/** The HTTP server. Each call of listen needs a new one. */
export interface HttpSurface {
  listen(options: object): unknown;
  readonly server: Server<unknown> | null;
}

type Certificate = Pick<TlsConfig, "cert" | "key">;

/** Rejects with CommandFailure for an address that is in use or cannot be used. */
export async function openListener(
  make: () => HttpSurface,
  options: ListenerOptions,
): Promise<Listener> {
  let certificate = certificateOf(options.tls);
  const servers = [await listen(make(), options, certificate)];
  const port = servers[0]?.port ?? 0;
  const { listen: address } = options;
  const sameAddress = {
    ...options,
    listen: address.kind === "tcp" ? { ...address, port } : address,
  };
  const { quietMoment } = options;
  /** In Bun 1.4.5 `stop(false)` closes the listener and idle connections, with what they have sent and nobody has read. */
  const stopListening = async (): Promise<void> => {
    await quietMoment?.(address.kind === "tcp" ? port : undefined);
    for (const server of servers) void server.stop(false);
  };
  const renew = async (tls: TlsConfig | undefined): Promise<string | undefined> => {
    const next = certificateOf(tls);
    if (isRefusing || !certificate || !next || Bun.deepEquals(certificate, next)) return undefined;
    // Created before the old server stops, to keep the time without a listener short.
    const surface = make();
    // In Bun 1.4.5 server.reload keeps the old certificate, so a new server is needed.
    await stopListening();
    try {
      servers.push(await listen(surface, sameAddress, next));
      certificate = next;
      return undefined;
    } catch (error) {
      servers.push(await listen(make(), sameAddress, certificate));
      return error instanceof Error ? error.message : String(error);
    }
  };
  let renewal: Promise<unknown> = Promise.resolve();
  let isRefusing = false;
  return {
    address: addressText(options, port),
    port: address.kind === "tcp" ? port : undefined,
    renewCertificate(tls) {
      // One after the other, because both need the same address.
      const renewed = renewal.then(() => renew(tls));
      renewal = renewed.catch(() => undefined);
      return renewed;
    },
    async refuse() {
      isRefusing = true;
      // A renewal listens again at its end.
      await renewal;
      // A client that finds no socket has sent nothing, and those that are connected are still served.
      if (address.kind === "unix") rmSync(address.path, { force: true });
      await stopListening();
    },
    async close(idleCut, cut = idleCut) {
      const ended = Promise.all(servers.map((server) => server.stop(false)));
      await Promise.race([ended, idleCut]);
      if (servers.some(({ pendingRequests }) => pendingRequests > 0)) {
        await Promise.race([ended, cut]);
      }
      await Promise.all(servers.map((server) => server.stop(true)));
    },
  };
}

function certificateOf(tls: TlsConfig | undefined): Certificate | undefined {
  return tls && { cert: tls.cert, key: tls.key };
}

async function listen(
  surface: HttpSurface,
  { listen: address, socketMode, purpose }: ListenerOptions,
  certificate: Certificate | undefined,
): Promise<Server<unknown>> {
  const target =
    address.kind === "tcp"
      ? { hostname: address.host, port: address.port }
      : { unix: address.path };
  if (address.kind === "unix") await removeStaleSocket(address.path);
  const bind = (): void =>
    void surface.listen({ ...target, ...(certificate && { tls: certificate }) });
  try {
    if (address.kind === "unix") withFileMode(socketMode, bind);
    else bind();
  } catch (cause) {
    throw await listenProblem(cause, address, purpose);
  }
  if (!surface.server) throw new Error("the server did not start");
  if (address.kind === "unix") chmodSync(address.path, socketMode);
  await lengthenQueues();
  return surface.server;
}

/** Why the address cannot be used, and what to do. */
export async function listenProblem(
  cause: unknown,
  address: Listen,
  purpose?: string,
): Promise<CommandFailure> {
  const action = purpose === undefined ? "listen" : `listen for ${purpose}`;
  const name = address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
  const reason = (await isUnresolvable(address))
    ? "this name has no address: use an address of this machine, such as 127.0.0.1"
    : listenErrorReason(cause, address);
  return new CommandFailure(`cannot ${action} on ${name}: ${reason}`, { cause });
}

/** Files that `make` creates are open to nobody else, not even until chmod. */
function withFileMode(mode: number, make: () => void): void {
  const umask = process.umask(0o777 & ~mode);
  try {
    make();
  } finally {
    process.umask(umask);
  }
}

function addressText({ listen, tls }: ListenerOptions, port: number): string {
  if (listen.kind === "unix") return listen.path;
  const host = listen.host.includes(":") ? `[${listen.host}]` : listen.host;
  return `${tls ? "https" : "http"}://${host}:${port}`;
}

/** For a name without an address Bun 1.4.5 reports the code of an earlier error. */
function isUnresolvable(address: Listen): Promise<boolean> {
  if (address.kind === "unix") return Promise.resolve(false);
  return lookup(address.host).then(
    () => false,
    () => true,
  );
}

function listenErrorReason(error: unknown, address: Listen): string {
  switch (errorCode(error) ?? "") {
    case "EADDRINUSE":
      return isOtherFile(address)
        ? "the existing file is not a socket: use another path"
        : "the address is in use: stop the other program, or use another address";
    case "EADDRNOTAVAIL":
      return "this machine does not have this address: use one of its own, such as 127.0.0.1";
    case "ENOENT":
    case "ENOTDIR":
      return `the folder of the socket does not exist: create it, or ${REWRITE_UNIT}`;
    case "EACCES":
    case "EROFS":
      return address.kind === "tcp"
        ? `permission denied: use a port from 1024 up, or ${REWRITE_UNIT}`
        : `permission denied: use a folder that this user owns, or ${REWRITE_UNIT}`;
    default:
      return fileErrorReason(error);
  }
}

function isOtherFile(address: Listen): boolean {
  if (address.kind === "tcp") return false;
  return lstatSync(address.path, { throwIfNoEntry: false })?.isSocket() === false;
}

/** Removes a unix socket that remains after a crash. A socket in use stays, and so does a file that is not a socket. */
async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
    const probe = await Bun.connect({ unix: path, socket: { data() {} } });
    probe.end();
  } catch (error) {
    // Another error, such as missing permission, does not prove that the socket is unused.
    if (errorCode(error) === "ECONNREFUSED") rmSync(path);
  }
}
