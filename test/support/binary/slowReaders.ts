import { helloEvent } from "../provider/chatAnswers.ts";
import { oneModel } from "../gateway/gatewayConfig.ts";
import { growthDuring, leastMemory, residentBytes } from "../measurement.ts";
import { requestFor } from "../world/asks.ts";
import { created } from "../provider/responsesAnswers.ts";
import {
  piece,
  startProvider,
  streamHead,
  type ScriptedProvider,
} from "../provider/scriptedProvider.ts";
import { until } from "../until.ts";
import { chatEvent, responseEvent } from "../provider/upstreamText.ts";
import { several } from "../several.ts";
import { inWorld } from "../world/script.ts";
import { World } from "../world/world.ts";

const megabyte = 1_048_576;
/** What may be held for each reader: one read of the network is half of it. */
const GROWTH_MAX = megabyte;
/** Below this share of the limit the test does not wait for another garbage collection. */
const ENOUGH_SHARE = 0.75;
const OFFERED_BYTES = 100 * megabyte;
/** The system's buffers of two connections, and less than a gateway without backpressure would take. */
const AHEAD_MAX = 64 * megabyte;
/** Long on the wire and short in what it says: else the stream would be cut as one that never ends. */
const padding = "x".repeat(65_536);
const longEvents = {
  chat: piece(chatEvent({ content: "word" }, null, { padding })),
  responses: piece(responseEvent("response.output_text.delta", { delta: "word", padding })),
};
/** All readers together take a piece so often at most, of half a megabyte at most. */
const PIECES_PER_SECOND = 40;
/**
 * Until its reader's buffers are full each makes garbage as fast as the provider can send. No more do so at a time, and
 * as many did before the first look at the memory: what is measured is what is kept for those who read slowly.
 */
const BEGUN_AT_ONCE = 2;
const WARM_UPS = 4;
const stalledMs = 100;
const restMs = 3000;
const collectMs = 60_000;

/** So many readers and more are a long run. */
const MANY = 100;

interface SlowSetup {
  readonly world: World;
  readonly key: string;
  readonly provider: ScriptedProvider;
  /** Bytes by the reader's number. */
  readonly sent: number[];
  readonly amount: number;
}

export const slowReaders = inWorld<SlowSetup>({
  name: "slowReaders",
  proves:
    "of 100 MB each, who read slowly, hold their providers up, and less than a megabyte each of the gateway's memory",
  unit: "readers",
  // So many that their total memory is more than the variation of the runtime.
  amounts: [20, 20, 200],
  atOnce: 1,
  isDisturbed: true,
  open: openSlow,
  async warmUp({ world, ...setup }) {
    await leaveAll(setup.provider, await beginAll({ world, ...setup }, WARM_UPS));
    await leastMemory(world.gateway, 0, restMs);
  },
  play: readSlowly,
  least: (readers) => ({ readers }),
});

/** Its provider sends as fast as it may. */
async function openSlow(seed: number, amount: number): Promise<SlowSetup> {
  const sent: number[] = [];
  const provider = startProvider(async (peer, { requestLine, text }) => {
    const isChat = requestLine.includes("/chat/");
    const number = Number(/"reader (\d+)"/.exec(text)?.[1]);
    await peer.send(streamHead);
    await peer.send(piece(isChat ? helloEvent : created()));
    const event = isChat ? longEvents.chat : longEvents.responses;
    for (sent[number] = 0; sent[number] < OFFERED_BYTES; sent[number] += event.length)
      await peer.send(event);
  });
  const config = oneModel(`http://127.0.0.1:${provider.port}/v1`);
  return await World.open({ seed, providers: [provider], config }, async ({ gateway }) => ({
    key: await gateway.key("alice", "100000"),
    provider,
    sent,
    amount,
  }));
}

/**
 * Lets all clients read at once for a while, chat and responses by turns; then they pause and, when the gateway's memory was
 * looked at, leave.
 */
async function readSlowly(setup: SlowSetup): Promise<void> {
  const { world, provider, sent, amount: count } = setup;
  const { gateway, figures, problems } = world;
  const [seconds, readMin] = count < MANY ? [3, 250_000] : [60, 500_000];
  const before = residentBytes(gateway.pids);
  let readers: readonly SlowReader[] = [];
  let aheadMost = 0;
  // Much of it is garbage.
  figures["peakGrowth"] = await growthDuring(gateway.pids, async () => {
    readers = await beginAll(setup, count);
    // Counted, for a machine that has much to do takes longer for as many.
    for (let turn = 0; turn < seconds * PIECES_PER_SECOND; turn += 1) {
      readers[turn % count]?.readOn();
      await Bun.sleep(1000 / PIECES_PER_SECOND);
      for (const [number, { readBytes }] of readers.entries())
        aheadMost = Math.max(aheadMost, (sent[number] ?? 0) - readBytes);
    }
  });
  const leastRead = Math.min(...readers.map(({ readBytes }) => readBytes));
  const enough = before + count * GROWTH_MAX * ENOUGH_SHARE;
  const growth = (await leastMemory(gateway, enough, collectMs)) - before;
  await leaveAll(provider, readers);
  world.count("readers", count);
  Object.assign(figures, { leastRead, aheadMost, growthOfAll: growth });
  if (leastRead <= readMin) problems.push(`a reader got only ${leastRead} bytes`);
  if (aheadMost >= AHEAD_MAX) problems.push(`a provider was ${aheadMost} bytes ahead`);
  if (growth >= count * GROWTH_MAX) problems.push(`all readers hold ${growth} bytes`);
}

/** Resolves when all have the first of their answers, and the provider can send no more. */
async function beginAll(setup: SlowSetup, count: number): Promise<readonly SlowReader[]> {
  const readers: SlowReader[] = [];
  while (readers.length < count) {
    const next = several(Math.min(BEGUN_AT_ONCE, count - readers.length), (at) =>
      startReader(setup, readers.length + at),
    );
    readers.push(...(await Promise.all(next)));
    await stalled(setup);
  }
  return readers;
}

async function stalled({ sent }: SlowSetup): Promise<void> {
  const sum = () => sent.reduce((all, bytes) => all + bytes, 0);
  let seen = -1;
  let sameSinceMs = performance.now();
  await until("the provider has to wait", () => {
    if (sum() !== seen) sameSinceMs = performance.now();
    seen = sum();
    return performance.now() - sameSinceMs > stalledMs;
  });
}

async function leaveAll(provider: ScriptedProvider, readers: readonly SlowReader[]): Promise<void> {
  for (const reader of readers) reader.disconnect();
  await until("the provider is rid of all", () => provider.openCount === 0);
}

interface SlowReader {
  readonly readBytes: number;
  /** Takes what there is, once. */
  readOn(): void;
  disconnect(): void;
}

/** Resolves when the first of the answer is there; none of it is kept. */
async function startReader({ world, key }: SlowSetup, number: number): Promise<SlowReader> {
  let readBytes = 0;
  const begun = Promise.withResolvers<void>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: world.port,
    socket: {
      data(open, bytes) {
        readBytes += bytes.length;
        open.pause();
        begun.resolve();
      },
      close: () => begun.reject(new Error("the gateway closed the connection")),
      error: () => {},
    },
  });
  const form = number % 2 === 0 ? "chat stream" : "responses stream";
  socket.write(requestFor(key, form, { model: "small", prompt: `reader ${number}` }));
  await begun.promise;
  return {
    get readBytes() {
      return readBytes;
    },
    readOn: () => socket.resume(),
    disconnect: () => socket.terminate(),
  };
}
