import { afterEach, expect, test } from "bun:test";
import type { ProviderConfig } from "../../src/config/schema.ts";
import { Deadlines, systemClock } from "../../src/lib/clock.ts";
import { openai } from "../../src/providers/openai/openai.ts";
import { createUpstream } from "../../src/providers/upstream.ts";
import { startRawServer } from "../support/provider/rawServer.ts";

const idleMs = 100;
const head =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const openThings: { stop: () => void }[] = [];
afterEach(() => {
  for (const thing of openThings.splice(0)) thing.stop();
});

test("a read that the taker suspends is not timed until it is resumed", async () => {
  const taken = Promise.withResolvers<void>();
  const server = startRawServer(async (peer) => {
    await peer.request();
    await peer.send(`${head}3\r\none\r\n`);
    await reading.promise;
    await peer.send("3\r\ntwo\r\n");
    await peer.closed;
  });
  openThings.push(server);
  const reading = Promise.withResolvers<void>();
  const provider = {
    id: "p",
    baseUrl: `http://127.0.0.1:${server.port}/v1`,
    headers: {},
    connectTimeoutMs: 1000,
    firstByteTimeoutMs: 1000,
    totalTimeoutMs: 60_000,
  } as ProviderConfig;
  const upstream = createUpstream(provider, openai, new Deadlines(systemClock), {
    onUnsolicitedData() {},
  });
  openThings.push({ stop: () => upstream.close() });
  const exchange = upstream.send({ path: "/x", body: "{}", stream: true, requestId: "r" });
  await exchange.answer;
  await exchange.read();
  exchange.setReadTimeout(idleMs);
  exchange.offerTo(() => {
    exchange.suspendReadTimeout();
    taken.resolve();
    return true;
  });
  let isOver = false;
  const read = exchange.read().catch((error: unknown) => {
    isOver = true;
    return error;
  });
  reading.resolve();
  await taken.promise;
  await Bun.sleep(3 * idleMs);
  expect(isOver).toBe(false);
  exchange.resumeReadTimeout();
  expect(await read).toMatchObject({ outcome: "timeout" });
});
