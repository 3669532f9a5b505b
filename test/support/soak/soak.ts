import { resourcesOf, finalProblems, untilAtRest, type Kept, type SoakSetup } from "./setup.ts";
import { lostCharges, paidFor, strangeUsage } from "./charges.ts";
import { newTally, sendSoakLoad, type SoakTally } from "./clients.ts";
import { operate, reload, type SoakDone } from "./operator.ts";
import { growthBytes, quantile, slopeBytes, watch, type SoakFigures } from "./watch.ts";
import { collectGarbage } from "../measurement.ts";

export interface SoakOptions {
  readonly seconds: number;
  readonly perSecond: number;
  readonly reloadEveryMs: number;
  /** Called each minute with the totals so far. */
  report?(standing: SoakStanding): void;
}

/** The totals of a soak so far. */
export interface SoakStanding {
  readonly seconds: number;
  readonly begun: number;
  /** The rate that was reached. */
  readonly perSecond: number;
  readonly left: number;
  readonly failedOver: number;
  readonly outcomes: SoakTally["outcomes"];
  readonly credits: number;
  readonly reloads: number;
  readonly commands: SoakDone["commands"];
  /** The gateway's memory now, and its growth from the first third of the time to the last. */
  readonly residentMiB: number;
  readonly growthMiB: number;
  /** After the first hour, in MiB an hour. */
  readonly slopeMiB: number | undefined;
  /** The largest size of the write-ahead log. */
  readonly walMiB: number;
  /** The 99th percentile of the event loop's delay, in the median second. */
  readonly lagMs: number;
  /** The 99th percentile of health checks, without the time that other processes took. */
  readonly healthMs: number;
  /** The growth of open files and objects, measured when the gateway is idle. */
  readonly files: number;
  readonly heapMiB: number;
  readonly problems: readonly string[];
}

const mebibyte = 1_048_576;
const minuteMs = 60_000;
const warmUpRequests = 400;
const filesMore = 5;
/** More than a collection leaves. A leak of a kilobyte for each of some thousand requests exceeds it. */
const heapBytesMore = 6 * mebibyte;
const restTimeoutMs = 60_000;
const walBytesMost = 64 * mebibyte;

interface Run {
  readonly setup: SoakSetup;
  readonly tally: SoakTally;
  readonly figures: SoakFigures;
  readonly done: SoakDone;
  readonly begunBefore: number;
  readonly before: Kept;
  now: Kept;
  readonly startedMs: number;
  /** How long requests were sent. */
  loadMs: number;
  /** The last request that was looked at. */
  lastRow: bigint;
}

/** Uses the gateway for this time, and waits until it is idle. Ends early with the first problem. */
export async function soak(setup: SoakSetup, options: SoakOptions): Promise<SoakStanding> {
  const { gateway, accounts, configOf } = setup;
  const { perSecond, reloadEveryMs } = options;
  const run = await warmUp(setup, perSecond);
  const { tally, figures, done, startedMs } = run;
  const tookMs = (): number => performance.now() - startedMs;
  const isOver = (): boolean => tookMs() > options.seconds * 1000 || tally.problems.length > 0;
  let judging = Promise.resolve();
  const everyMinute = setInterval(() => {
    run.loadMs = tookMs();
    judging = judging
      .then(() => judge(run))
      .catch((error: unknown) => tally.problems.push(String(error)))
      .then(() => options.report?.(standingOf(run)));
  }, minuteMs);
  const send = async (): Promise<void> => {
    await sendSoakLoad({ ...setup, perSecond, tally, isOver });
    run.loadMs = tookMs();
  };
  await Promise.all([
    send(),
    operate({ gateway, accounts, reloadEveryMs, configOf, isOver }, done),
    watch(setup, figures, isOver).catch((error: unknown) => tally.problems.push(String(error))),
  ]);
  clearInterval(everyMinute);
  await judging;
  await judgeAtRest(run);
  return standingOf(run);
}

/** Sends a few hundred requests, and records the idle gateway's files before them and its memory after them. */
async function warmUp(setup: SoakSetup, perSecond: number): Promise<Run> {
  const tally = newTally();
  const { files } = await resourcesOf(setup);
  const isOver = (): boolean => tally.begun >= warmUpRequests;
  await sendSoakLoad({ ...setup, perSecond, tally, isOver });
  await untilAtRest(setup);
  const done: SoakDone = { refs: [], reloads: 0, commands: {}, problems: tally.problems };
  await reload(setup, done);
  const before = { ...(await resourcesOf(setup)), files };
  return {
    setup,
    tally,
    figures: { resident: [], lagsMs: [], healthMs: [], walBytesMax: 0 },
    done,
    begunBefore: tally.begun,
    before,
    now: before,
    startedMs: performance.now(),
    loadMs: 0,
    lastRow: 0n,
  };
}

/** Compares the answers since the last check with the database. */
async function judge(run: Run): Promise<void> {
  const { setup, tally, figures } = run;
  const { place } = setup.gateway;
  const unpaid = await paidFor(place, tally.unpaid.splice(0));
  tally.unpaid.push(...unpaid.open);
  const usage = await strangeUsage(place, run.lastRow);
  run.lastRow = usage.last;
  const lost = await lostCharges(place, tally.whole.splice(0));
  tally.problems.push(...lost, ...unpaid.problems, ...usage.problems);
  setup.forget();
  if (figures.walBytesMax >= walBytesMost)
    tally.problems.push(`the write-ahead log had ${figures.walBytesMax} bytes`);
}

async function judgeAtRest(run: Run): Promise<void> {
  const { setup, tally, done } = run;
  await untilAtRest(setup).catch((error: unknown) => tally.problems.push(String(error)));
  await untilGivenBack(run);
  await judge(run);
  tally.problems.push(...tally.unpaid.map((id) => `${id} has no record of its end`));
  setup.gateway.auditor.credits.push(...done.refs);
  tally.problems.push(...(await finalProblems(setup)));
}

/**
 * Waits until the gateway has closed unused connections and collected garbage. A reload comes first: with
 * it go the connections to the providers, which are kept for the next request.
 */
async function untilGivenBack(run: Run): Promise<void> {
  const { setup, before, tally, done } = run;
  await reload(setup, done);
  const deadlineMs = performance.now() + restTimeoutMs;
  for (;;) {
    run.now = await resourcesOf(setup);
    const files = run.now.files - before.files;
    const heap = run.now.heapBytes - before.heapBytes;
    if (files <= filesMore && heap <= heapBytesMore) return;
    if (performance.now() > deadlineMs) {
      tally.problems.push(`at rest it has ${files} files and ${heap} bytes more than before`);
      return;
    }
    await collectGarbage(setup.gateway.url);
  }
}

function standingOf({ tally, figures, done, ...run }: Run): SoakStanding {
  const seconds = (performance.now() - run.startedMs) / 1000;
  const perSecond = ((tally.begun - run.begunBefore) * 1000) / run.loadMs;
  const slope = slopeBytes(figures);
  return {
    seconds: Math.round(seconds),
    begun: tally.begun,
    perSecond: Math.round(perSecond),
    left: tally.left,
    failedOver: tally.failedOver,
    outcomes: tally.outcomes,
    credits: done.refs.length,
    reloads: done.reloads,
    commands: done.commands,
    residentMiB: inMiB(figures.resident.at(-1)?.bytes ?? 0),
    growthMiB: inMiB(growthBytes(figures)),
    slopeMiB: slope === undefined ? undefined : inMiB(slope),
    walMiB: inMiB(figures.walBytesMax),
    lagMs: tenths(quantile(figures.lagsMs, 0.5)),
    healthMs: tenths(quantile(figures.healthMs, 0.99)),
    files: run.now.files - run.before.files,
    heapMiB: inMiB(run.now.heapBytes - run.before.heapBytes),
    problems: tally.problems,
  };
}

function inMiB(bytes: number): number {
  return tenths(bytes / mebibyte);
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
