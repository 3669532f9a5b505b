import { helloEvent } from "../provider/chatAnswers.ts";
import { ask } from "../gateway/chatCalls.ts";
import { oneModel } from "../gateway/gatewayConfig.ts";
import { startGatewayBefore } from "./gatewayBefore.ts";
import type { GatewayProcess } from "./gatewayProcess.ts";
import { growthDuring, leastMemory } from "../measurement.ts";
import { postBytes } from "../gateway/rawClient.ts";
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

/** What was seen of clients that read slowly, in bytes. */
export interface SlowReadersSeen {
  readonly readers: number;
  /** What the one that read least has read. */
  readonly leastRead: number;
  /** By so much the provider was ahead of its reader at most, for the one with which it was most. */
  readonly aheadMost: number;
  /** By so much the gateway's memory was more than before at most; much of that is garbage. */
  readonly peakGrowth: number;
  /** By so much it is more than before while all are still there, once the garbage is collected. */
  readonly growth: number;
}

export interface SlowReaders {
  /**
   * Lets so many clients read at once for so long, chat and responses by turns; then they pause and, when the gateway's
   * memory was looked at, leave.
   */
  read(readers: number, seconds: number): Promise<SlowReadersSeen>;
  /** Stops the gateway with SIGTERM and runs the audits. */
  close(): Promise<void>;
}

const megabyte = 1_048_576;
/** What may be held for each reader: one read of the network is half of it. */
export const GROWTH_MAX = megabyte;
/** Below this share of the limit the test does not wait for another garbage collection. */
const ENOUGH_SHARE = 0.75;
const OFFERED_BYTES = 100 * megabyte;
/** The system's buffers of two connections, and less than a gateway without backpressure would take. */
export const AHEAD_MAX = 64 * megabyte;
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

/** Starts the compiled gateway in front of a provider that sends as fast as it may. Close it, also after a failure. */
export async function openSlowReaders(): Promise<SlowReaders> {
  /** By the reader's number. */
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
  const started = await startGatewayBefore(provider, config);
  const { gateway } = started;
  const setup = { gateway, key: await gateway.key("alice", "100000"), provider, sent };
  return {
    read: (readers, seconds) => readSlowly(setup, readers, seconds),
    close: () => started.close(),
  };
}

interface Setup {
  readonly gateway: GatewayProcess;
  readonly key: string;
  readonly provider: ScriptedProvider;
  readonly sent: number[];
}

async function readSlowly(setup: Setup, count: number, seconds: number): Promise<SlowReadersSeen> {
  const { gateway, provider, sent } = setup;
  await leaveAll(provider, await beginAll(setup, WARM_UPS));
  const before = await leastMemory(gateway, 0, restMs);

  let readers: readonly SlowReader[] = [];
  let aheadMost = 0;
  const peakGrowth = await growthDuring(gateway.pid, async () => {
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
  const after = await leastMemory(gateway, enough, collectMs);
  await leaveAll(provider, readers);
  return { readers: count, leastRead, aheadMost, peakGrowth, growth: after - before };
}

/** Resolves when all have the first of their answers, and the provider can send no more. */
async function beginAll(setup: Setup, count: number): Promise<readonly SlowReader[]> {
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

async function stalled({ sent }: Setup): Promise<void> {
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
async function startReader({ gateway: { url }, key }: Setup, number: number): Promise<SlowReader> {
  const said = `reader ${number}`;
  const isChat = number % 2 === 0;
  const body = JSON.stringify(
    isChat
      ? ask({ stream: true, messages: [{ role: "user", content: said }] })
      : { model: "small", stream: true, input: said },
  );
  const path = isChat ? "/v1/chat/completions" : "/v1/responses";
  let readBytes = 0;
  const begun = Promise.withResolvers<void>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: Number(new URL(url).port),
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
  socket.write(postBytes(path, key, body));
  await begun.promise;
  return {
    get readBytes() {
      return readBytes;
    },
    readOn: () => socket.resume(),
    disconnect: () => socket.terminate(),
  };
}
