import net from "node:net";
import type { Duplex } from "node:stream";
import tls from "node:tls";
import { testCertificate, type CertificateName } from "../provider/rawServer.ts";

/** A proxy on 127.0.0.1 that opens tunnels, as the gateway's operator may have one. */
export interface ForwardProxy {
  readonly port: number;
  /** The targets as they came, such as `name localhost:443`, `address 127.0.0.1:443` or `address [::1]:443`. */
  readonly asked: readonly string[];
  /** `user password`, for each login. */
  readonly logins: readonly string[];
  /** Bytes that came through TLS, where the proxy speaks it. */
  readonly bytesReceived: number;
  /** Connections open now. */
  readonly openCount: number;
  stop(): void;
}

export interface ForwardProxyOptions {
  readonly kind: "http" | "https" | "socks5";
  /** Without it no login is asked for. */
  readonly login?: { readonly user: string; readonly password: string } | undefined;
  readonly certificate?: CertificateName;
  /** What it answers to each target: an HTTP status, or a reply of RFC 1928. Without it the tunnel is opened. */
  readonly refusal?: number;
}

/**
 * Starts a proxy. It reaches each name at 127.0.0.1, so that a test can use a name that only the proxy knows.
 */
export async function startForwardProxy(options: ForwardProxyOptions): Promise<ForwardProxy> {
  const open = new Set<Duplex>();
  const seen = { asked: [] as string[], logins: [] as string[], bytesReceived: 0 };
  const accept = (socket: Duplex): void => {
    open.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => open.delete(socket));
    socket.on("data", (bytes: Buffer) => {
      seen.bytesReceived += bytes.length;
    });
    const reader = new Reader(socket);
    const negotiate = options.kind === "socks5" ? negotiateSocks : negotiateHttp;
    negotiate(socket, reader, options, seen)
      .then((way) => way && relay(socket, reader, way))
      .catch(() => socket.destroy());
  };
  const server =
    options.kind === "https"
      ? tls.createServer(testCertificate(options.certificate ?? "localhost"), accept)
      : net.createServer(accept);
  server.on("tlsClientError", () => {});
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as net.AddressInfo;
  return {
    port,
    asked: seen.asked,
    logins: seen.logins,
    get bytesReceived() {
      return seen.bytesReceived;
    },
    get openCount() {
      return open.size;
    },
    stop() {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}

interface Seen {
  readonly asked: string[];
  readonly logins: string[];
}

/** Where the tunnel goes. */
interface Way {
  readonly host: string;
  readonly port: number;
  /** What tells the client that the tunnel is open. */
  readonly granted: string | Buffer;
}

type Negotiation = (
  socket: Duplex,
  reader: Reader,
  options: ForwardProxyOptions,
  seen: Seen,
) => Promise<Way | undefined>;

const negotiateHttp: Negotiation = async (socket, reader, { login, refusal }, seen) => {
  const head = await reader.until("\r\n\r\n");
  const [, host = "", port = ""] =
    /^CONNECT \[?([^\s\]]+)\]?:(\d+) HTTP\/1\.1\r\n/.exec(head) ?? [];
  const credentials = /\r\nProxy-Authorization: Basic (\S+)\r\n/.exec(head)?.[1];
  if (credentials !== undefined) seen.logins.push(atob(credentials).replace(":", " "));
  const refuse = (status: number): undefined => {
    socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\n\r\n`);
  };
  if (login && credentials !== btoa(`${login.user}:${login.password}`)) return refuse(407);
  seen.asked.push(targetText(host, Number(port)));
  if (refusal !== undefined) return refuse(refusal);
  return { host, port: Number(port), granted: "HTTP/1.1 200 OK\r\n\r\n" };
};

const [NO_LOGIN, BY_PASSWORD, NO_METHOD] = [0, 2, 0xff];

/** https://www.rfc-editor.org/rfc/rfc1928 and https://www.rfc-editor.org/rfc/rfc1929 */
const negotiateSocks: Negotiation = async (socket, reader, { login, refusal }, seen) => {
  const [, count = 0] = await reader.take(2);
  const methods = await reader.take(count);
  const method = login === undefined ? NO_LOGIN : BY_PASSWORD;
  if (!methods.includes(method)) return void socket.end(Buffer.of(5, NO_METHOD));
  socket.write(Buffer.of(5, method));
  if (login) {
    await reader.take(1);
    const user = await reader.takeText();
    const password = await reader.takeText();
    seen.logins.push(`${user} ${password}`);
    const isRight = user === login.user && password === login.password;
    socket.write(Buffer.of(1, isRight ? 0 : 1));
    if (!isRight) return void socket.end();
  }
  const [, , , kind = 0] = await reader.take(4);
  const host =
    kind === 3 ? await reader.takeText() : addressText(await reader.take(kind === 1 ? 4 : 16));
  const port = (await reader.take(2)).readUInt16BE();
  seen.asked.push(targetText(host, port));
  const reply = (code: number): Buffer => Buffer.of(5, code, 0, 1, 0, 0, 0, 0, 0, 0);
  if (refusal !== undefined) return void socket.end(reply(refusal));
  return { host, port, granted: reply(0) };
};

function addressText(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16));
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

function targetText(host: string, port: number): string {
  const kind = net.isIP(host) === 0 ? "name" : "address";
  return `${kind} ${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function relay(socket: Duplex, reader: Reader, { host, port, granted }: Way): void {
  const target = net.connect({ host: net.isIP(host) === 0 ? "127.0.0.1" : host, port });
  target.on("error", () => socket.destroy());
  target.on("close", () => socket.destroy());
  socket.on("close", () => target.destroy());
  target.once("connect", () => {
    socket.write(granted);
    target.write(reader.rest());
    socket.pipe(target);
    target.pipe(socket);
  });
}

/** Takes bytes from the beginning of a stream. */
class Reader {
  #bytes: Buffer = Buffer.alloc(0);
  #isOver = false;
  #progress = Promise.withResolvers<void>();
  readonly #keep = (bytes: Buffer): void => {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    this.#wake();
  };

  readonly #stream: Duplex;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on("data", this.#keep);
    stream.on("close", () => {
      this.#isOver = true;
      this.#wake();
    });
  }

  async take(count: number): Promise<Buffer> {
    while (this.#bytes.length < count) await this.#more();
    const taken = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return taken;
  }

  /** A text behind a byte that has its length. */
  async takeText(): Promise<string> {
    const [length = 0] = await this.take(1);
    return (await this.take(length)).toString();
  }

  async until(end: string): Promise<string> {
    while (!this.#bytes.includes(end)) await this.#more();
    return (await this.take(this.#bytes.indexOf(end) + end.length)).toString("latin1");
  }

  /** What was not taken. It takes nothing from now on. */
  rest(): Buffer {
    this.#stream.off("data", this.#keep);
    return this.#bytes;
  }

  async #more(): Promise<void> {
    if (this.#isOver) throw new Error("the client closed the connection");
    await this.#progress.promise;
  }

  #wake(): void {
    const { resolve } = this.#progress;
    this.#progress = Promise.withResolvers();
    resolve();
  }
}
