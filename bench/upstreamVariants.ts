// The clients that bench/upstreamClients.ts compares, each used in its cheapest way.

import * as http from "node:http";
import { pathToFileURL } from "node:url";
import { createHttpClient, type HttpExchange } from "../src/providers/http/client.ts";
import { type LoadClient, type VariantName, REQUEST_BODY } from "./upstreamLoad.ts";

const HEADERS = {
  "content-type": "application/json",
  accept: "application/json",
  "accept-encoding": "identity",
  authorization: "Bearer sk-0123456789012345678901234567890123456789",
};

interface UndiciPool {
  request(options: object): Promise<{
    body: AsyncIterable<Uint8Array> & { text(): Promise<string> };
  }>;
}
interface Undici {
  Pool: new (origin: string, options: object) => UndiciPool;
}

export async function loadClient(
  name: VariantName,
  origin: string,
  undiciFolder: string | undefined,
): Promise<LoadClient> {
  switch (name) {
    case "Bun.connect client":
      return connectClient(origin);
    case "fetch":
    case "fetch, limit lifted":
      return fetchClient(origin);
    case "undici Pool":
      return undiciClient(origin, undiciFolder ?? "");
    case "node:http Agent":
      return nodeClient(origin);
  }
}

function connectClient(origin: string): LoadClient {
  const client = createHttpClient({ baseUrl: origin, connectTimeoutMs: 5000 });
  const send = (path: string, ended: (exchange: HttpExchange) => void, onFirst = () => {}) => {
    const exchange = client.send(
      { path, headers: HEADERS, body: REQUEST_BODY },
      {
        responded() {
          onFirst();
          if (path === "/json") exchange.collect(Infinity);
        },
        exceeded() {},
        ended: () => ended(exchange),
      },
    );
    return exchange;
  };
  return {
    json: () =>
      new Promise((resolve) => {
        send("/json", (exchange) => resolve(Buffer.from(exchange.takeAll()).toString().length));
      }),
    async stream(path, onFirst) {
      const first = Promise.withResolvers<void>();
      const begun = (): void => {
        onFirst();
        first.resolve();
      };
      const exchange = send(path, () => {}, begun);
      await first.promise;
      let reads = 0;
      while ((await exchange.read()) !== undefined) {
        reads += 1;
      }
      return reads;
    },
  };
}

function fetchClient(origin: string): LoadClient {
  const send = (path: string) =>
    fetch(origin + path, { method: "POST", headers: HEADERS, body: REQUEST_BODY });
  return {
    async json() {
      const response = await send("/json");
      return (await response.text()).length;
    },
    async stream(path, onFirst) {
      const response = await send(path);
      onFirst();
      let reads = 0;
      for await (const _ of response.body ?? []) {
        reads += 1;
      }
      return reads;
    },
  };
}

async function undiciClient(origin: string, folder: string): Promise<LoadClient> {
  // Imported by its file: the bare name is Bun's own stub, which does nothing here.
  const file = pathToFileURL(`${folder}/index.js`).href;
  const { Pool } = (await import(file)) as Undici;
  const pool = new Pool(origin, { connections: null, pipelining: 1 });
  const send = (path: string) =>
    pool.request({ path, method: "POST", headers: HEADERS, body: REQUEST_BODY });
  return {
    async json() {
      const { body } = await send("/json");
      return (await body.text()).length;
    },
    async stream(path, onFirst) {
      const { body } = await send(path);
      onFirst();
      let reads = 0;
      for await (const _ of body) {
        reads += 1;
      }
      return reads;
    },
  };
}

function nodeClient(origin: string): LoadClient {
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: 2048 });
  const { hostname, port } = new URL(origin);
  const send = (path: string) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const headers = { ...HEADERS, "content-length": REQUEST_BODY.length };
      const options = { agent, hostname, port, path, method: "POST", headers };
      http.request(options, resolve).on("error", reject).end(REQUEST_BODY);
    });
  const drain = (message: http.IncomingMessage, onData: (bytes: Buffer) => void) =>
    new Promise<void>((resolve, reject) => {
      message.on("data", onData).on("end", resolve).on("error", reject);
    });
  return {
    async json() {
      const message = await send("/json");
      let text = "";
      await drain(message, (bytes) => {
        text += bytes.toString();
      });
      return text.length;
    },
    async stream(path, onFirst) {
      const message = await send(path);
      onFirst();
      let reads = 0;
      await drain(message, () => {
        reads += 1;
      });
      return reads;
    },
  };
}
