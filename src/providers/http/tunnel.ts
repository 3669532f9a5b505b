import { lookup } from "node:dns/promises";
import net from "node:net";
import type { Duplex } from "node:stream";
import tls from "node:tls";
import { SocksClient } from "socks";
import {
  ConnectionError,
  connectError,
  handshakeError,
  proxyError,
  type ProxyRefusal,
} from "./connectionError.ts";
import {
  PROBE_AFTER_MS,
  proxyAuthorities,
  proxyAuthorization,
  type ConnectionProxy,
  type ConnectionTarget,
  type TunnelTarget,
} from "./connectionTarget.ts";
import { ResponseDecoder } from "./responseDecoder.ts";

// This module is loaded only if a proxy has to open a tunnel. Its sockets are Node's: Bun's own cannot have TLS inside of TLS,
// which a proxy behind https:// needs, and the library for SOCKS takes no others.

/**
 * Opens a tunnel to the target through its proxy, with TLS inside of it if the target is secure. Rejects with
 * ConnectionError, also when the signal aborts. It has no timeout.
 */
export async function openTunnel(target: TunnelTarget, signal: AbortSignal): Promise<net.Socket> {
  const { proxy, ca } = target;
  const socket = await connected(proxy, signal);
  try {
    const { host } = proxy;
    const outer =
      proxy.kind === "https"
        ? await encrypted(socket, { host, ca: proxyAuthorities(ca) }, "proxy")
        : socket;
    if (proxy.kind === "http" || proxy.kind === "https") await askByConnect(outer, target);
    else await askBySocks(socket, target);
    return target.isSecure ? await encrypted(outer, target, "target") : outer;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Connects to the proxy. The socket is closed when the signal aborts. */
function connected({ host, port }: ConnectionProxy, signal: AbortSignal): Promise<net.Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  const socket = net.connect({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
  });
  const abort = (): void => void socket.destroy();
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  // Errors that come later are told by the close.
  socket.on("error", (error) => reject(connectError(error)));
  socket.once("close", () => {
    signal.removeEventListener("abort", abort);
    reject(new ConnectionError("closed", "the connection was closed"));
  });
  socket.once("connect", () => resolve(socket));
  return promise;
}

/** TLS over a stream. Both close together. */
function encrypted(
  below: Duplex,
  server: Pick<ConnectionTarget, "host" | "ca">,
  peer: "target" | "proxy",
): Promise<tls.TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<tls.TLSSocket>();
  const { ca, host } = server;
  const fail = (cause?: unknown): void => reject(handshakeError(peer, cause));
  const stream = tls.connect({
    socket: below,
    host,
    // An address must not be in SNI. The certificate is verified against the host.
    servername: net.isIP(host) === 0 ? host : "",
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  });
  stream.on("error", fail);
  stream.once("close", () => {
    below.destroy();
    fail();
  });
  below.once("close", () => stream.destroy());
  stream.once("secureConnect", () => {
    if (stream.authorized) resolve(stream);
    else fail(stream.authorizationError);
  });
  return promise;
}

/** https://www.rfc-editor.org/rfc/rfc9110#name-connect */
async function askByConnect(stream: Duplex, { host, port, proxy }: TunnelTarget): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const decoder = new ResponseDecoder({ isBodyless: true });
  const read = (bytes: Buffer): void => {
    decoder.push(bytes);
    const status = decoder.head?.status;
    if (decoder.violation !== undefined || decoder.hasSurplus) reject(proxyError("protocol"));
    else if (status !== undefined && status >= 300) reject(proxyError(refusalOfStatus(status)));
    else if (status !== undefined) resolve();
  };
  const close = (): void => reject(proxyError("protocol"));
  stream.on("data", read).once("close", close);
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const authorization = proxyAuthorization(proxy);
  stream.write(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${
      authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`
    }\r\n`,
  );
  try {
    await promise;
  } finally {
    stream.off("data", read).off("close", close);
  }
}

function refusalOfStatus(status: number): ProxyRefusal {
  if (status === 407 || status === 401) return "login";
  return status >= 500 ? "target" : "rules";
}

/** A name has at most this many bytes: https://www.rfc-editor.org/rfc/rfc1928#section-5 */
const SOCKS_NAME_BYTES_MAX = 255;

/** https://www.rfc-editor.org/rfc/rfc1928 and https://www.rfc-editor.org/rfc/rfc1929 */
async function askBySocks(socket: net.Socket, target: TunnelTarget): Promise<void> {
  const { host: name, port, proxy, timeoutMs } = target;
  const host = proxy.kind === "socks5" && net.isIP(name) === 0 ? await addressOf(name) : name;
  // The proxy may have closed the connection meanwhile, which the library would not hear.
  if (socket.destroyed) throw proxyError("protocol");
  if (Buffer.byteLength(host) > SOCKS_NAME_BYTES_MAX)
    throw new ConnectionError("request", "the host name is too long for SOCKS");
  const { login } = proxy;
  try {
    await SocksClient.createConnection({
      command: "connect",
      proxy: {
        type: 5,
        host: proxy.host,
        port: proxy.port,
        ...(login && { userId: login.user, password: login.password }),
      },
      destination: { host, port },
      existing_socket: socket,
      // The library's timeout cannot be turned off. The connect timeout must end first, also where the process stands still
      // for a while: the connect timeout then lasts longer, because it counts timer steps.
      timeout: 10 * timeoutMs,
    });
  } catch (error) {
    // Not the cause: the library's error has the password.
    throw proxyError(refusalOfSocks(error));
  }
}

async function addressOf(name: string): Promise<string> {
  try {
    return (await lookup(name)).address;
  } catch (error) {
    throw connectError(error);
  }
}

/** The library has no codes, but fixed messages; the last word of one is the proxy's reply. */
function refusalOfSocks(error: unknown): ProxyRefusal {
  const message = error instanceof Error ? error.message : "";
  if (/authentication/i.test(message)) return "login";
  if (message.endsWith("NotAllowed")) return "rules";
  return /(?:Failure|Unreachable|Refused|TTLExpired)$/.test(message) ? "target" : "protocol";
}
