import type { Socket } from "node:net";
import { ConnectionError } from "./connectionError.ts";
import { ConnectionPool } from "./connectionPool.ts";
import {
  connectionProxy,
  connectionTarget,
  isForwarded,
  proxyAuthorization,
  type TargetOptions,
} from "./connectionTarget.ts";
import { type Message, Connection } from "./connection.ts";
import {
  Exchange,
  type HttpExchange,
  type OpenRequests,
  type ResponseListener,
} from "./exchange.ts";

export { ConnectionError } from "./connectionError.ts";
export type { HttpExchange, OpenRequests, ResponseListener } from "./exchange.ts";

/** The server that a client talks to, and how to reach it. */
export interface HttpClientOptions extends TargetOptions {
  /** `http(s)://host[:port][/path][?query]`, already validated. */
  readonly baseUrl: string;
  /** Sent with each request before its own headers. An invalid header makes each `send` fail. */
  readonly headers?: HttpHeaders;
  /** Called when bytes came without a request, with the time in which no connection is reused. */
  readonly onUnsolicitedData?: ((distrustMs: number) => void) | undefined;
  /** The count of the client that this one replaces; without it the count starts at 0. */
  readonly open?: OpenRequests | undefined;
}

type HttpHeaders = Readonly<Record<string, string>>;

export interface HttpRequest {
  /** Default: POST. A GET has no body. */
  readonly method?: "GET";
  /** Starts with "/" and is appended to the path of the base URL. It may have a query. */
  readonly path: string;
  /** Host, Content-Length, Transfer-Encoding and Connection are refused: the client sets them. */
  readonly headers: HttpHeaders;
  /** Text, which is sent as UTF-8, or bytes in pieces. */
  readonly body: string | readonly Uint8Array[];
}

/**
 * The HTTP/1.1 client of one provider: keep-alive, no limit on concurrent exchanges, no redirects, no decompression,
 * no proxy from the environment, TLS always verified.
 */
export interface HttpClient {
  /** Never throws. An invalid request ends at once with a ConnectionError of the code "request". */
  send(request: HttpRequest, listener: ResponseListener): HttpExchange;
  /** Exchanges in progress, including those that `options.open` had counted. */
  readonly open: OpenRequests;
  /**
   * Closes idle connections now, and used ones when their exchanges end. `send` still works: a request that began
   * before a reload may come to this client on failover.
   */
  close(): void;
}

/** A longer body is encoded before it is written, because it may be sent in parts. */
const TEXT_CHARS_MAX = 65_536;
/** Adjacent pieces up to this size are sent as one. */
const JOINED_BYTES_MAX = 16_384;

const PATH = /^\/[\x21-\x7e]*$/;
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
const OWN_HEADERS = /^(?:host|content-length|transfer-encoding|connection|proxy-authorization)$/i;

/** Opens no connection before the first request. */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  return new PooledClient(options);
}

class OwnCount implements OpenRequests {
  count = 0;

  begin(): void {
    this.count += 1;
  }

  end(): void {
    this.count -= 1;
  }
}

class PooledClient implements HttpClient {
  readonly #pool: ConnectionPool;
  readonly #targetPrefix: string;
  readonly #targetSuffix: string;
  readonly #fixedHeaders: string;
  readonly #fixedProblem: string | undefined;
  readonly open: OpenRequests;

  constructor(options: HttpClientOptions) {
    const url = new URL(options.baseUrl);
    const target = connectionTarget(url, options);
    const forwarder = isForwarded(target) ? target.proxy : undefined;
    const authorization = forwarder && proxyAuthorization(forwarder);
    this.open = options.open ?? new OwnCount();
    this.#pool = new ConnectionPool(target, options.onUnsolicitedData);
    this.#targetPrefix = (forwarder ? url.origin : "") + url.pathname.replace(/\/$/, "");
    this.#targetSuffix = url.search;
    this.#fixedHeaders =
      `Host: ${url.host}\r\n` +
      (authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`) +
      textOf(options.headers);
    this.#fixedProblem = problemOfHeaders(options.headers);
  }

  send(request: HttpRequest, listener: ResponseListener): HttpExchange {
    const exchange = new Exchange(this.#pool, this.open, listener);
    const problem = this.#fixedProblem ?? problemOf(request);
    if (problem === undefined) exchange.start(this.#encode(request));
    else exchange.refuse(new ConnectionError("request", problem));
    return exchange;
  }

  close(): void {
    this.#pool.close();
  }

  #encode({ method, path, headers, body }: HttpRequest): Message {
    const pieces =
      typeof body === "string" && body.length > TEXT_CHARS_MAX ? [Buffer.from(body)] : body;
    const isText = typeof pieces === "string";
    const suffix = path.includes("?") ? this.#targetSuffix.replace("?", "&") : this.#targetSuffix;
    const bodyBytes = isText
      ? Buffer.byteLength(pieces)
      : pieces.reduce((sum, { length }) => sum + length, 0);
    const length = method === "GET" ? "" : `Content-Length: ${bodyBytes}\r\n`;
    const head =
      `${method ?? "POST"} ${this.#targetPrefix}${path}${suffix} HTTP/1.1\r\n` +
      `${this.#fixedHeaders}${textOf(headers)}${length}\r\n`;
    return isText ? head + pieces : joinSmallPieces([Buffer.from(head), ...pieces]);
  }
}

function textOf(headers: HttpHeaders = {}): string {
  let text = "";
  for (const name in headers) text += `${name}: ${headers[name]}\r\n`;
  return text;
}

/** Each piece is a write and so a packet. Joins small pieces with their neighbours. */
function joinSmallPieces(pieces: readonly Uint8Array[]): Uint8Array[] {
  const joined: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const flush = (): void => {
    if (small.length > 0) joined.push(Buffer.concat(small));
    small = [];
  };
  for (const piece of pieces) {
    if (piece.length <= JOINED_BYTES_MAX) {
      small.push(piece);
    } else {
      flush();
      joined.push(piece);
    }
  }
  flush();
  return joined;
}

/** Characters that could inject a header or a second request. */
function problemOf({ path, headers }: HttpRequest): string | undefined {
  if (!PATH.test(path)) return "the path of the request has a forbidden character";
  return problemOfHeaders(headers);
}

function problemOfHeaders(headers: HttpHeaders = {}): string | undefined {
  for (const name in headers) {
    if (!HEADER_NAME.test(name) || OWN_HEADERS.test(name)) {
      return "the request has a header that may not be set";
    }
    if (!HEADER_VALUE.test(headers[name] ?? "")) {
      return "the request has a forbidden character in a header";
    }
  }
  return undefined;
}

/**
 * Opens a tunnel through a proxy to a server that does not speak HTTP, without TLS inside of it. Rejects with ConnectionError,
 * also when the signal aborts.
 */
export async function tunnelTo(
  server: { readonly host: string; readonly port: number },
  { proxyUrl, ca }: { readonly proxyUrl: string; readonly ca: string | undefined },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Socket> {
  const { openTunnel } = await import("./tunnel.ts");
  const proxy = connectionProxy(proxyUrl);
  return openTunnel({ ...server, isSecure: false, ca, proxy, timeoutMs }, signal);
}

/**
 * Opens the connection that a request would use, with TLS and its certificate, and closes it without a request. A
 * proxy for an `http:` target can only be reached itself. Rejects with ConnectionError after `connectTimeoutMs` at
 * the latest.
 */
export function checkReachable(options: HttpClientOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const target = connectionTarget(new URL(options.baseUrl), options);
  const connection = new Connection(target, {
    opened: () => resolve(),
    received() {},
    closed(_, failure) {
      reject(failure ?? new ConnectionError("closed", "the connection was closed"));
    },
  });
  return promise.finally(() => connection.close());
}
