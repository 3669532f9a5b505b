// One client and its load, in a process of its own, for bench/providerTls.ts. Prints one line of JSON.
//
//   bun bench/providerTls/caller.ts CLIENT LOAD URL
//
// CLIENT is "http2", "fetch", or the path of the project whose HTTP client is measured.
import { readFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { quantile } from "../gateway/figures.ts";
import type { HttpClient, HttpExchange } from "../../src/providers/http/client.ts";

/** Sends a request; resolves at its end with the milliseconds to its first byte. Rejects if there is no whole answer. */
type Send = (path: string) => Promise<number>;

/** What a load found. Times in milliseconds, CPU in microseconds. */
export interface Found {
  readonly requests: number;
  readonly failures: number;
  readonly cpuUs: number;
  readonly p50: number;
  readonly p99: number;
}

const ca = readFileSync(
  new URL("../../test/support/certificates/authority.pem", import.meta.url),
  "utf8",
);
const body = JSON.stringify({ model: "m", text: "x".repeat(2000) });
const headers = {
  "content-type": "application/json",
  authorization: `Bearer sk-${"0".repeat(40)}`,
};

const THINKING_MS = 500;
const WARM_UP_REQUESTS = 300;

const [client = "", load = "", url = ""] = process.argv.slice(2);

async function openClient(): Promise<Send> {
  if (client === "fetch") return openFetch();
  return client === "http2" ? openHttp2() : await openOwn(client);
}

async function openOwn(folder: string): Promise<Send> {
  const { createHttpClient } = (await import(join(folder, "src/providers/http/client.ts"))) as {
    createHttpClient: (options: object) => HttpClient;
  };
  const own = createHttpClient({ baseUrl: url, ca, connectTimeoutMs: 20_000 });
  return (path) =>
    new Promise((resolve, reject) => {
      const startedMs = performance.now();
      let firstMs = 0;
      const exchange: HttpExchange = own.send(
        { path: `/${path}`, headers, body },
        {
          responded() {
            firstMs = performance.now() - startedMs;
            if (path === "stream") void drain(exchange);
            else exchange.collect(Infinity);
          },
          exceeded() {},
          ended: (failure) => (failure === undefined ? resolve(firstMs) : reject(failure)),
        },
      );
    });
}

async function drain(exchange: HttpExchange): Promise<void> {
  while ((await exchange.read()) !== undefined);
}

function openHttp2(): Send {
  const session = connectHttp2(url, { ca });
  return (path) =>
    new Promise((resolve, reject) => {
      const startedMs = performance.now();
      let firstMs = 0;
      session
        .request({ ":method": "POST", ":path": `/${path}`, ...headers })
        .on("response", () => (firstMs = performance.now() - startedMs))
        .on("data", () => {})
        .on("end", () => resolve(firstMs))
        .on("error", reject)
        .end(body);
    });
}

function openFetch(): Send {
  return async (path) => {
    const startedMs = performance.now();
    const options = { method: "POST", headers, body, protocol: "http2", tls: { ca } } as const;
    const response = await fetch(`${url}/${path}`, options);
    const firstMs = performance.now() - startedMs;
    await response.arrayBuffer();
    return firstMs;
  };
}

/** Awaits all, and counts the CPU time since `from`. */
async function found(sent: readonly Promise<number>[], from: NodeJS.CpuUsage): Promise<Found> {
  const results = await Promise.allSettled(sent);
  const { user, system } = process.cpuUsage(from);
  const times = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  return {
    requests: results.length,
    failures: results.length - times.length,
    cpuUs: (user + system) / results.length,
    p50: quantile(times, 0.5) ?? NaN,
    p99: quantile(times, 0.99) ?? NaN,
  };
}

/** Requests whose answers are thought about for half a second, evenly over the time. */
async function steady(aSecond: number, seconds: number): Promise<Found> {
  const send = await openClient();
  const startedMs = performance.now();
  const from = process.cpuUsage();
  const sent: Promise<number>[] = [];
  for (let count = 0; count < aSecond * seconds; count += 1) {
    await Bun.sleep(startedMs + (count * 1000) / aSecond - performance.now());
    const one = send(String(THINKING_MS)).then((ms) => ms - THINKING_MS);
    one.catch(() => {});
    sent.push(one);
  }
  return await found(sent, from);
}

/** So many at once, `pauseMs` after `earlier` others. */
async function burst(
  atOnce: number,
  path: string,
  earlier: number,
  pauseMs: number,
): Promise<Found> {
  const send = await openClient();
  const all = (count: number): Promise<number>[] => Array.from({ length: count }, () => send(path));
  await Promise.all(all(earlier));
  await Bun.sleep(pauseMs);
  return await found(all(atOnce), process.cpuUsage());
}

/** One after another, each with a client of its own. */
async function singly(count: number, prepared: (send: Send) => Promise<unknown>): Promise<Found> {
  const sent: Promise<number>[] = [];
  const from = process.cpuUsage();
  for (let index = 0; index < count; index += 1) {
    const send = await openClient();
    await prepared(send);
    sent.push(Promise.resolve(await send("0")));
  }
  return await found(sent, from);
}

/** One after another with pauses of 0 to 160 ms, at a provider that closes connections meanwhile. */
async function closing(count: number): Promise<Found> {
  const send = await openClient();
  const sent: Promise<number>[] = [];
  const from = process.cpuUsage();
  const work = async (): Promise<void> => {
    for (let index = 0; index < count / 20; index += 1) {
      const one = send("0");
      sent.push(one);
      await one.catch(() => {});
      await Bun.sleep(Math.random() * 160);
    }
  };
  await Promise.all(Array.from({ length: 20 }, work));
  return await found(sent, from);
}

/** CPU alone: as fast as the network lets. */
async function closely(atOnce: number, total: number): Promise<Found> {
  const send = await openClient();
  let left = WARM_UP_REQUESTS * atOnce;
  let sent: Promise<number>[] = [];
  const work = async (): Promise<void> => {
    while ((left -= 1) >= 0) {
      const one = send("0");
      sent.push(one);
      await one;
    }
  };
  const all = (): Promise<unknown> => Promise.all(Array.from({ length: atOnce }, work));
  await all();
  [left, sent] = [total, []];
  const from = process.cpuUsage();
  await all();
  return await found(sent, from);
}

const loads: Readonly<Record<string, () => Promise<Found>>> = {
  new: () => singly(30, async () => {}),
  kept: () => singly(30, (send) => send("0")),
  "steady 10": () => steady(10, 60),
  "steady 100": () => steady(100, 30),
  "burst 64": () => burst(64, "0", 0, 0),
  "burst 64 after one": () => burst(64, "0", 1, 100),
  "burst 64 again": () => burst(64, "0", 64, 10_000),
  "burst 64 a minute later": () => burst(64, "0", 64, 60_000),
  "burst 500": () => burst(500, "0", 0, 0),
  "streams 64": () => burst(64, "stream", 64, 100),
  "json 64": () => closely(64, 20_000),
  closing: () => closing(1000),
  moved: () => steady(10, 420),
};

console.log(JSON.stringify(await loads[load]?.()));
process.exit();
