import type { Bench } from "./bench.ts";
import { stop, type Contestant } from "./contestants.ts";
import { end, openFilesMax, residentBytes } from "./processes.ts";
import { callOf, throwFailure, untilBegun, watch } from "./turn.ts";

const STREAMS = 5000;
/** Beside two for each stream, what a process has open anyway. */
const OTHER_FILES = 500;
const SETTLE_MS = 3000;
const AFTER_MS = 30_000;
const SAMPLE_MS = 50;
const BULK_BYTES = 200_000_000;
const BULK_BYTES_PER_SECOND = 40_000_000;

/** Starts a contestant anew: one that has worked has memory to spare, which would hide what it takes. */
export type Start = () => Promise<Contestant>;

/** What an idle open stream takes, and what is left of all of them when they are closed. */
export async function measureIdle(bench: Bench, starts: readonly Start[]): Promise<void> {
  const streams = Math.min(STREAMS, Math.floor((openFilesMax() - OTHER_FILES) / 2));
  if (streams < STREAMS) bench.note(`idle streams: only ${streams}, for want of open files`);
  const leaving: Promise<void>[] = [];
  for (const start of starts) {
    const contestant = await start();
    try {
      const before = await openAndClose(bench, contestant, streams);
      leaving.push(watchRest(bench, contestant, before));
    } catch (error) {
      await bench.load.give({ kind: "stop" });
      await stop(contestant);
      bench.note(`idle streams, ${contestant.name}: ${String(error)}`);
    }
  }
  await Promise.all(leaving);
}

/** @returns the bytes that the process had before */
async function openAndClose(
  bench: Bench,
  contestant: Contestant,
  streams: number,
): Promise<number> {
  const { load, figures } = bench;
  const { name, child } = contestant;
  for (const model of ["json", "stream-20"]) {
    await watch(load, contestant, { model, atOnce: 64, warmMs: 0, windowMs: 1000 });
  }
  await Bun.sleep(SETTLE_MS);
  const before = residentBytes(child.pid);
  await load.give({ kind: "loop", atOnce: streams, ...callOf(contestant, { model: "silent" }) });
  await untilBegun(load, streams);
  await Bun.sleep(SETTLE_MS);
  figures.add("idle stream bytes", name, (residentBytes(child.pid) - before) / streams);
  throwFailure(contestant, (await load.give({ kind: "stop" })).counters);
  return before;
}

async function watchRest(bench: Bench, { name, child }: Contestant, before: number): Promise<void> {
  await Bun.sleep(AFTER_MS);
  bench.figures.add("idle bytes left", name, residentBytes(child.pid) - before);
  await end(child);
}

/** How much a process grows while 200 MB pass through it to a client that reads slowly. */
export async function measureBulk(bench: Bench, starts: readonly Start[]): Promise<void> {
  for (const start of starts) {
    const contestant = await start();
    try {
      await readSlowly(bench, contestant);
    } catch (error) {
      bench.note(`slow reader, ${contestant.name}: ${String(error)}`);
    } finally {
      await stop(contestant);
    }
  }
}

async function readSlowly(bench: Bench, contestant: Contestant): Promise<void> {
  const { load, figures } = bench;
  const { pid } = contestant.child;
  await watch(load, contestant, { model: "stream-20", atOnce: 64, warmMs: 0, windowMs: 1000 });
  const before = residentBytes(pid);
  let most = before;
  const sampler = setInterval(() => {
    most = Math.max(most, residentBytes(pid));
  }, SAMPLE_MS);
  try {
    const call = callOf(contestant, { model: "bulk" });
    await load.give({ kind: "slow", bytesPerSecond: BULK_BYTES_PER_SECOND, ...call });
  } finally {
    clearInterval(sampler);
  }
  const { counters } = await load.give({ kind: "stop" });
  throwFailure(contestant, counters);
  if (counters.bytes < BULK_BYTES) throw new Error(`only ${counters.bytes} bytes came`);
  figures.add("bulk bytes grown", contestant.name, most - before);
}
