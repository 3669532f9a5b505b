import { afterEach } from "bun:test";
import {
  ConnectionError,
  createHttpClient,
  type HttpClient,
  type HttpClientOptions,
  type HttpExchange,
  type HttpRequest,
  type ResponseListener,
} from "../../../src/providers/http/client.ts";
import { startRawServer, type RawPeer, type RawServer } from "../provider/rawServer.ts";

/** The servers and clients of a test; all are closed after it. */
export interface OpenHttp {
  readonly serve: (...server: Parameters<typeof startRawServer>) => RawServer;
  /** A client of a base URL, or of a server on this port. */
  readonly clientOf: (
    to: string | { readonly port: number },
    options?: Partial<HttpClientOptions>,
  ) => TestClient;
  readonly stopAfterTest: (thing: { stop(): void }) => void;
}

/** A response whose head has arrived. */
export type HttpResponse = Pick<HttpExchange, "status" | "header" | "read" | "offerTo">;

/** An exchange whose head can be awaited. */
export interface TestExchange {
  readonly exchange: HttpExchange;
  /** Rejects with the failure before the head. */
  readonly response: Promise<HttpResponse>;
  readonly isSent: boolean;
  abort(reason: Error): void;
}

export type TestClient = Pick<HttpClient, "open" | "close"> & {
  send(request: HttpRequest): TestExchange;
};

/** A client whose responses can be awaited. */
function testClient(client: HttpClient): TestClient {
  return {
    open: client.open,
    close: () => client.close(),
    send: (request) => awaitable((listener) => client.send(request, listener)),
  };
}

/** Starts an exchange whose head can be awaited. */
export function awaitable(start: (listener: ResponseListener) => HttpExchange): TestExchange {
  const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
  const exchange = start({
    responded: () => resolve(exchange),
    exceeded() {},
    ended: (failure) => failure && reject(failure),
  });
  promise.catch(() => {});
  return {
    exchange,
    response: promise,
    get isSent() {
      return exchange.isSent;
    },
    abort: (reason) => exchange.abort(reason),
  };
}

const connectTimeoutMs = 2000;

export function openHttpBefore(): OpenHttp {
  const openThings: { stop(): void }[] = [];
  afterEach(() => {
    for (const thing of openThings.splice(0)) thing.stop();
  });
  return {
    serve(...server) {
      const started = startRawServer(...server);
      openThings.push(started);
      return started;
    },
    clientOf(to, options = {}) {
      const baseUrl = typeof to === "string" ? to : `http://127.0.0.1:${to.port}/v1`;
      const client = createHttpClient({ baseUrl, connectTimeoutMs, ...options });
      openThings.push({ stop: () => client.close() });
      return testClient(client);
    },
    stopAfterTest: (thing) => openThings.push(thing),
  };
}

/** A small request with changes. */
export function request(parts: Partial<HttpRequest> = {}): HttpRequest {
  return { path: "/chat", headers: { "content-type": "application/json" }, body: "{}", ...parts };
}

export async function textOf(response: HttpResponse): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let piece = await response.read(); piece !== undefined; piece = await response.read()) {
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** Status and body of a whole exchange. */
export async function answerOf(exchange: Pick<TestExchange, "response">): Promise<string> {
  const response = await exchange.response;
  return `${response.status} ${await textOf(response)}`;
}

/** What the promise rejects with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("the promise did not reject");
}

/** The code of the ConnectionError that the promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<string> {
  const error = await rejectionOf(promise);
  return error instanceof ConnectionError ? error.code : `another error: ${String(error)}`;
}

/** The next piece of a body as a text. */
export async function pieceOf(response: Pick<HttpResponse, "read">): Promise<string> {
  return Buffer.from((await response.read()) ?? []).toString();
}

type Script = (peer: RawPeer) => Promise<void>;

/** A server takes one request on a connection and sends these bytes. */
export function sending(bytes: string | Uint8Array | ((request: string) => string)): Script {
  return async (peer) => {
    const seen = await peer.request();
    await peer.send(typeof bytes === "function" ? bytes(seen) : bytes);
  };
}

/** A server answers each request with the number of its connection; `headers` and `after` vary the answer. */
export function answeringIndex(headers = "", after = ""): Script {
  return async (peer) => {
    for (;;) {
      await peer.request();
      await peer.send(ok(String(peer.index), headers) + after);
    }
  };
}

/** A response with a content-length. */
export function ok(body: string, headers = ""): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`;
}
