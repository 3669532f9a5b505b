import { lookup } from "node:dns/promises";
import { chmodSync, lstatSync, rmSync } from "node:fs";
import type { Server } from "bun";
import type { Listen, TlsConfig } from "../../config/schema.ts";
import { CommandFailure } from "../cli/print.ts";
import { REWRITE_UNIT } from "../service/unit.ts";
import { errorCode, fileErrorReason } from "../../lib/systemError.ts";

/** A listener of a gateway. */
export interface Listener {
  /** `http://127.0.0.1:8080`, or the path of its socket. */
  readonly address: string;
  /**
   * Where it listens with TLS: new connections get this certificate; the open ones go on. Where nobody can listen
   * with it the old one stays, and it resolves with the reason. Throws as `openListener` where that fails as well.
   */
  renewCertificate(tls: TlsConfig | undefined): Promise<string | undefined>;
  /**
   * Refuses new connections, and lets open ones end: until `idleCut` resolves, and until `cut` where an answer is
   * still on its way. Then it cuts off the rest.
   */
  close(idleCut: Promise<unknown>, cut?: Promise<unknown>): Promise<void>;
}

/** Where a listener listens, and how. */
export interface Place {
  readonly listen: Listen;
  readonly tls: TlsConfig | undefined;
  /** Who may connect to a unix socket. */
  readonly socketMode: number;
  /** Named in the failure where it is not the gateway's own service. */
  readonly purpose?: string;
}

/** What answers there: the HTTP surface, made anew for each time that it listens. */
export interface HttpSurface {
  listen(options: object): unknown;
  readonly server: Server<unknown> | null;
}

/** The texts of a certificate's files. */
type Certificate = Pick<TlsConfig, "cert" | "key">;

/** Throws CommandFailure for an address that is taken or may not be used. */
export async function openListener(make: () => HttpSurface, place: Place): Promise<Listener> {
  let certificate = certificateOf(place.tls);
  const servers = [await listen(make(), place, certificate)];
  const port = servers[0]?.port ?? 0;
  const { listen: where } = place;
  const samePlace = { ...place, listen: where.kind === "tcp" ? { ...where, port } : where };
  const renew = async (tls: TlsConfig | undefined): Promise<string | undefined> => {
    const next = certificateOf(tls);
    if (!certificate || !next || Bun.deepEquals(certificate, next)) return undefined;
    // Made before the old one stops: for as long as that takes nobody would listen.
    const surface = make();
    // Bun 1.4.5 keeps the old certificate through server.reload: only a new listener has the new one.
    void servers.at(-1)?.stop(false);
    try {
      servers.push(await listen(surface, samePlace, next));
      certificate = next;
      return undefined;
    } catch (error) {
      servers.push(await listen(make(), samePlace, certificate));
      return error instanceof Error ? error.message : String(error);
    }
  };
  let renewal: Promise<unknown> = Promise.resolve();
  return {
    address: addressOf(place, port),
    renewCertificate(tls) {
      // One behind the other: two at once would both want the same place.
      const renewed = renewal.then(() => renew(tls));
      renewal = renewed.catch(() => undefined);
      return renewed;
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
  { listen: where, socketMode, purpose }: Place,
  certificate: Certificate | undefined,
): Promise<Server<unknown>> {
  const place =
    where.kind === "tcp" ? { hostname: where.host, port: where.port } : { unix: where.path };
  if (where.kind === "unix") await removeStaleSocket(where.path);
  try {
    surface.listen({ ...place, ...(certificate && { tls: certificate }) });
  } catch (cause) {
    const what = purpose === undefined ? "listen" : `listen for ${purpose}`;
    const reason = (await leadsNowhere(where))
      ? "this name has no address: use an address of this machine, such as 127.0.0.1"
      : reasonOf(cause, where);
    throw new CommandFailure(`cannot ${what} on ${shownListen(where)}: ${reason}`, { cause });
  }
  if (!surface.server) throw new Error("the server did not start");
  if (where.kind === "unix") chmodSync(where.path, socketMode);
  return surface.server;
}

function addressOf({ listen, tls }: Place, port: number): string {
  if (listen.kind === "unix") return listen.path;
  const host = listen.host.includes(":") ? `[${listen.host}]` : listen.host;
  return `${tls ? "https" : "http"}://${host}:${port}`;
}

function shownListen(listen: Listen): string {
  return listen.kind === "unix" ? listen.path : `${listen.host}:${listen.port}`;
}

/** Asked for, since Bun 1.4.5 gives such a name the code of whatever failed last. */
function leadsNowhere(where: Listen): Promise<boolean> {
  if (where.kind === "unix") return Promise.resolve(false);
  return lookup(where.host).then(
    () => false,
    () => true,
  );
}

function reasonOf(error: unknown, where: Listen): string {
  switch (errorCode(error) ?? "") {
    case "EADDRINUSE":
      return isNoSocket(where)
        ? "the existing file is not a socket: use another path"
        : "the address is in use: stop the other program, or use another address";
    case "EADDRNOTAVAIL":
      return "this machine does not have this address: use one of its own, such as 127.0.0.1";
    case "ENOENT":
    case "ENOTDIR":
      return `the folder of the socket does not exist: create it, or ${REWRITE_UNIT}`;
    case "EACCES":
    case "EROFS":
      return where.kind === "tcp"
        ? `permission denied: use a port from 1024 up, or ${REWRITE_UNIT}`
        : `permission denied: use a folder that this user owns, or ${REWRITE_UNIT}`;
    default:
      return fileErrorReason(error);
  }
}

function isNoSocket(where: Listen): boolean {
  if (where.kind === "tcp") return false;
  return lstatSync(where.path, { throwIfNoEntry: false })?.isSocket() === false;
}

/**
 * Removes a unix socket that a crash left behind. One that somebody answers on stays, and so does a file
 * that is no socket, which a mistaken path may name: listening there then fails.
 */
async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
    const probe = await Bun.connect({ unix: path, socket: { data() {} } });
    probe.end();
  } catch (error) {
    // Any other failure, such as a socket that is another user's, does not say that nobody listens: listening tells.
    if (errorCode(error) === "ECONNREFUSED") rmSync(path);
  }
}
