import type { Bench } from "./bench.ts";
import { stop, type Contestant } from "./contestants.ts";
import { end, openFilesMax, residentBytes } from "./processes.ts";
import { callOf, throwFailure, untilBegun, watch } from "./turn.ts";

const STREAMS = 5000;
/** The memory of a stream is measured after the first thousand: the first ones also use memory that was idle. */
const FIRST_STREAMS = 1000;
/** Open files of a process, in addition to two for each stream. */
const OTHER_FILES = 500;
const SETTLE_MS = 3000;
const AFTER_MS = 30_000;
const SAMPLE_MS = 50;
const BULK_BYTES = 200_000_000;
const BULK_BYTES_PER_SECOND = 40_000_000;

/** Starts a contestant anew: one that has worked has memory to spare, which would hide what it takes. */
export type Start = () => Promise<Contestant>;

/**
 * The memory of an idle open stream, and the memory that remains after all are closed. `rest` waits until the last
 * figure can be measured; others may be measured meanwhile.
 */
export async function measureIdle(
  bench: Bench,
  starts: readonly Start[],
): Promise<{ rest: () => Promise<unknown> }> {
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
  return { rest: () => Promise.all(leaving) };
}

/** Returns the bytes that the process had before. */
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
  const call = callOf(contestant, { model: "silent" });
  await load.give({ kind: "loop", atOnce: FIRST_STREAMS, ...call });
  await untilBegun(load, FIRST_STREAMS);
  await Bun.sleep(SETTLE_MS);
  const withFirst = residentBytes(child.pid);
  const further = streams - FIRST_STREAMS;
  await load.give({ kind: "loop", atOnce: further, ...call });
  await untilBegun(load, streams);
  await Bun.sleep(SETTLE_MS);
  figures.add("idle stream bytes", name, (residentBytes(child.pid) - withFirst) / further);
  throwFailure(contestant, (await load.give({ kind: "stop" })).counters);
  return before;
}

async function watchRest(bench: Bench, { name, child }: Contestant, before: number): Promise<void> {
  await Bun.sleep(AFTER_MS);
  bench.figures.add("idle bytes left", name, residentBytes(child.pid) - before);
  await end(child);
}

/** Whether a process grows while 200 MB pass through it to a client that reads slowly. */
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
  const sizes = [residentBytes(pid)];
  const sampler = setInterval(() => sizes.push(residentBytes(pid)), SAMPLE_MS);
  try {
    const call = callOf(contestant, { model: "bulk" });
    await load.give({ kind: "slow", bytesPerSecond: BULK_BYTES_PER_SECOND, ...call });
  } finally {
    clearInterval(sampler);
  }
  const { counters } = await load.give({ kind: "stop" });
  throwFailure(contestant, counters);
  if (counters.bytes < BULK_BYTES) throw new Error(`only ${counters.bytes} bytes came`);
  // Memory goes up and down with every garbage collection; a leak would show in the mean.
  const quarter = Math.floor(sizes.length / 4);
  const [first, last] = [sizes.slice(0, quarter), sizes.slice(-quarter)].map(mean);
  figures.add("bulk bytes grown", contestant.name, (last ?? NaN) - (first ?? NaN));
  figures.add("bulk bytes most", contestant.name, Math.max(...sizes));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
