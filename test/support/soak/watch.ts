import { walSizeBytes } from "../../../src/store/sqlite/sqlite.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { residentBytes, unhinderedTimer } from "../measurement.ts";
import { scrape, type Scrape } from "../gateway/scrape.ts";

/** Resource samples of the gateway, one per second. */
export interface SoakFigures {
  /** Resident bytes with their time in milliseconds, the earliest first. */
  readonly resident: { readonly atMs: number; readonly bytes: number }[];
  /** For each second the 99th percentile of the event loop's delay, in milliseconds. */
  readonly lagsMs: number[];
  /** The duration of health checks in milliseconds, without the time that other processes took. */
  readonly healthMs: number[];
  /** The largest that the write-ahead log of the file was; 0 with a server. */
  walBytesMax: number;
}

const sampleEveryMs = 1000;
const healthEveryMs = 50;
const walEveryMs = 100;

interface Watched {
  readonly gateway: GatewayProcess;
  readonly metricsUrl: string;
}

/** Samples until the signal aborts. */
export async function watch(
  watched: Watched,
  figures: SoakFigures,
  isOver: () => boolean,
): Promise<void> {
  await Promise.all([measureHealth(watched, figures, isOver), sample(watched, figures, isOver)]);
}

async function measureHealth(
  { gateway }: Watched,
  { healthMs }: SoakFigures,
  isOver: () => boolean,
): Promise<void> {
  while (!isOver()) {
    const next = Bun.sleep(healthEveryMs);
    const tookMs = unhinderedTimer([gateway.pid, process.pid]);
    const answer = await fetch(`${gateway.url}/healthz`, { keepalive: false });
    await answer.text();
    if (answer.status !== 200) throw new Error(`a health check said ${answer.status}`);
    healthMs.push(tookMs().all);
    await next;
  }
}

async function sample(
  { gateway, metricsUrl }: Watched,
  figures: SoakFigures,
  isOver: () => boolean,
): Promise<void> {
  const lookAtLog = (): void => {
    const bytes = walSizeBytes(gateway.cli.database);
    figures.walBytesMax = Math.max(figures.walBytesMax, bytes);
  };
  const timer = setInterval(lookAtLog, walEveryMs);
  try {
    while (!isOver()) {
      await Bun.sleep(sampleEveryMs);
      figures.resident.push({ atMs: performance.now(), bytes: residentBytes(gateway.pid) });
      figures.lagsMs.push(lagMs(await scrape(metricsUrl)));
    }
  } finally {
    clearInterval(timer);
  }
}

/** Since the scrape before. */
function lagMs(found: Scrape): number {
  return found.value("nodejs_eventloop_lag_p99_seconds") * 1000;
}

/** The value that such a share of all is below; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** The growth in bytes from the first third of the samples to the last, by their medians. */
export function growthBytes({ resident }: Pick<SoakFigures, "resident">): number {
  const third = Math.floor(resident.length / 3);
  const bytes = resident.map((sample) => sample.bytes);
  return quantile(bytes.slice(-third), 0.5) - quantile(bytes.slice(0, third), 0.5);
}

const hourMs = 3_600_000;

/** Bytes per hour, by least squares over the samples after the first hour; undefined without any. */
export function slopeBytes({ resident }: Pick<SoakFigures, "resident">): number | undefined {
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
