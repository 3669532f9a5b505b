import { walSizeBytes } from "../../../src/store/sqlite/sqlite.ts";
import { testedProcesses } from "../testedEngines.ts";
import { collectGarbage, residentBytes, unhinderedTimer } from "../measurement.ts";
import type { Kept, World } from "./world.ts";

/** Samples of a gateway in use. */
export interface Samples {
  /** Resident bytes with their time in milliseconds, the earliest first. */
  readonly resident: { readonly atMs: number; readonly bytes: number }[];
  /** For each second the 99th percentile of the event loop's delay, in milliseconds. */
  readonly lagsMs: number[];
  /** The duration of health checks in milliseconds, without the time that other processes took. */
  readonly healthMs: number[];
  /** The largest that the write-ahead log of the file was; 0 with a server. */
  walBytesMax: number;
}

const mebibyte = 1_048_576;
const sampleEveryMs = 1000;
const healthEveryMs = 50;
const walEveryMs = 100;
const giveBackTimeoutMs = 60_000;
const giveBackStepMs = 100;
/** For each process that serves. */
const filesMore = 5;
/** For each process that serves. Between two garbage collections resident memory grew by up to 38 MiB. */
const memoryMiBMore = 64;
const walBytesMost = 64 * mebibyte;
/**
 * The gateway's own measure of its event loop is that of the machine, too: 2 ms with the processors for itself, 180 beside
 * eight other programs. The time of a health check can be freed from what those take, and stayed below 30.
 */
const healthMsMax = 100;
/** Growth per hour, after the first hour. */
const slopeMiBMax = 1;
const hourMs = 3_600_000;

export const noSamples: Samples = { resident: [], lagsMs: [], healthMs: [], walBytesMax: 0 };

/** Samples the gateway of a world until it is over. */
export async function watch(world: World, isOver: () => boolean): Promise<Samples> {
  const samples = structuredClone(noSamples);
  const failed = (error: unknown): number => world.problems.push(`watching: ${String(error)}`);
  await Promise.all([
    measureHealth(world, samples, isOver).catch(failed),
    measureMemory(world, samples, isOver).catch(failed),
  ]);
  return samples;
}

async function measureHealth(
  world: World,
  { healthMs }: Samples,
  isOver: () => boolean,
): Promise<void> {
  const { gateway } = world;
  let hasFailed = false;
  while (!isOver()) {
    const next = Bun.sleep(healthEveryMs);
    const tookMs = unhinderedTimer([gateway.pid, process.pid]);
    try {
      const answer = await fetch(`${gateway.url}/healthz`, { keepalive: false });
      await answer.text();
      if (answer.status !== 200) world.problems.push(`a health check said ${answer.status}`);
      healthMs.push(tookMs().all);
      hasFailed = false;
    } catch (error) {
      // A client that stands still on a busy machine is disconnected before its request is there.
      if (hasFailed) throw error;
      hasFailed = true;
    }
    await next;
  }
}

async function measureMemory(world: World, samples: Samples, isOver: () => boolean): Promise<void> {
  const { gateway } = world;
  for (let at = 0; !isOver(); at += 1) {
    await Bun.sleep(walEveryMs);
    samples.walBytesMax = Math.max(samples.walBytesMax, walSizeBytes(gateway.cli.database));
    if ((at * walEveryMs) % sampleEveryMs !== 0) continue;
    samples.resident.push({ atMs: performance.now(), bytes: residentBytes(gateway.pids) });
    // Since the scrape before.
    samples.lagsMs.push((await world.scrape()).value("nodejs_eventloop_lag_p99_seconds") * 1000);
  }
}

/** The figures of a run for its report. */
export function figuresOf({ resident, lagsMs, healthMs, walBytesMax }: Samples) {
  const slope = slopeBytes(resident);
  return {
    residentMiB: inMiB(resident.at(-1)?.bytes ?? 0),
    ...(slope !== undefined && { slopeMiB: inMiB(slope) }),
    walMiB: inMiB(walBytesMax),
    lagMs: tenths(quantile(lagsMs, 0.5)),
    healthMs: tenths(quantile(healthMs, 0.99)),
  };
}

/** What is beyond the limits of every world. */
export function problemsOfSamples(samples: Samples): string[] {
  const { walMiB, healthMs, slopeMiB = 0 } = figuresOf(samples);
  const problems: string[] = [];
  if (samples.walBytesMax >= walBytesMost) problems.push(`the write-ahead log had ${walMiB} MiB`);
  if (healthMs >= healthMsMax) problems.push(`a health check took ${healthMs} ms`);
  if (slopeMiB >= slopeMiBMax) problems.push(`its memory grows by ${slopeMiB} MiB an hour`);
  return problems;
}

/** Waits until the idle gateway has closed unused connections and collected garbage. Returns what it keeps above `before`. */
export async function untilGivenBack(
  world: World,
  before: Kept,
  heapMiBMore = memoryMiBMore,
): Promise<{ readonly files: number; readonly heapMiB: number; readonly residentMiB: number }> {
  const deadlineMs = performance.now() + giveBackTimeoutMs;
  for (;;) {
    const now = await world.kept();
    const files = now.files - before.files;
    const heapMiB = inMiB(now.heapBytes - before.heapBytes);
    const residentMiB = inMiB(now.residentBytes - before.residentBytes);
    const growth = { files, heapMiB, residentMiB };
    const isBelow = (more: number, most: number) => more <= most * testedProcesses;
    const isHeapBelow = isBelow(heapMiB, heapMiBMore) && isBelow(residentMiB, memoryMiBMore);
    if (isBelow(files, filesMore) && isHeapBelow) return growth;
    if (performance.now() > deadlineMs) {
      world.problems.push(`at rest it has more than before: ${JSON.stringify(growth)}`);
      return growth;
    }
    await collectGarbage(world.gateway.url);
    await Bun.sleep(giveBackStepMs);
  }
}

/** The value that such a share of all is below; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Bytes per hour, by least squares over the samples after the first hour; undefined without any. */
function slopeBytes(resident: Samples["resident"]): number | undefined {
  const startMs = resident[0]?.atMs ?? 0;
  const late = resident.filter(({ atMs }) => atMs - startMs > hourMs);
  if (late.length < 2) return undefined;
  const mean = (of: (sample: (typeof late)[number]) => number): number =>
    late.reduce((sum, sample) => sum + of(sample), 0) / late.length;
  const meanMs = mean(({ atMs }) => atMs);
  const meanBytes = mean(({ bytes }) => bytes);
  const covariance = mean(({ atMs, bytes }) => (atMs - meanMs) * (bytes - meanBytes));
  return (covariance / mean(({ atMs }) => (atMs - meanMs) ** 2)) * hourMs;
}

function inMiB(bytes: number): number {
  return tenths(bytes / mebibyte);
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
