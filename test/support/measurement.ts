import { readFileSync } from "node:fs";
import { testedProcesses } from "./testedEngines.ts";

/**
 * Counts the processor's milliseconds that this process has spent since: what else a busy machine does adds
 * nothing to them, as it does to those on the clock.
 */
export function cpuTimer(): () => number {
  const before = process.cpuUsage();
  return () => process.cpuUsage(before).user / 1000;
}

/** https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html: the second figure is resident pages. */
const pageBytes = 4096;
const sampledEveryMs = 2;
/** They take some tens of milliseconds. */
const workRequests = 100;
/** The collector does much of its work while the gateway is idle. */
const collectEveryMs = 100;

/** Bytes of processes that are resident now; those that they share count for each. Linux only. */
export function residentBytes(pids: readonly number[]): number {
  const pagesOf = (pid: number) => Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
  return pids.reduce((sum, pid) => sum + pagesOf(pid), 0) * pageBytes;
}

/** How many bytes processes grew by at most while the work was done. */
export async function growthDuring(
  pids: readonly number[],
  work: () => Promise<void>,
): Promise<number> {
  const before = residentBytes(pids);
  let most = before;
  const look = (): void => {
    most = Math.max(most, residentBytes(pids));
  };
  const timer = setInterval(look, sampledEveryMs);
  try {
    await work();
    look();
  } finally {
    clearInterval(timer);
  }
  return most - before;
}

/** The least memory in bytes that a gateway had within so long, or as soon as it has no more than `enough`. */
export async function leastMemory(
  { url, pids }: { readonly url: string; readonly pids: readonly number[] },
  enough: number,
  withinMs: number,
): Promise<number> {
  const endMs = performance.now() + withinMs;
  let least = residentBytes(pids);
  while (least > enough && performance.now() < endMs) {
    await collectGarbage(url);
    least = Math.min(least, residentBytes(pids));
    await Bun.sleep(collectEveryMs);
  }
  return least;
}

/**
 * Sends health checks: work makes the runtime of a gateway collect garbage. An idle one keeps it for minutes. The system
 * gives each new connection to one of its processes, so with several each check has its own.
 */
export async function collectGarbage(url: string): Promise<void> {
  const keepalive = testedProcesses === 1;
  for (let sent = 0; sent < workRequests * testedProcesses; sent++) {
    await (await fetch(`${url}/healthz`, { keepalive })).text();
  }
}

const nanosecondsOfMillisecond = 1_000_000;

/**
 * How long the main thread of a process, in all its life, was ready to run while the processors were with others, in
 * milliseconds. Who measures another process on a busy machine takes it off. Linux only:
 * https://docs.kernel.org/scheduler/sched-stats.html, the second figure.
 */
function processorWaitMs(pid: number): number {
  const [, waited] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(waited) / nanosecondsOfMillisecond;
}

/**
 * Counts the milliseconds since, without those that the processes had to wait for a processor. They may have waited at
 * the same time: `longest` takes off the longer wait alone, `all` takes off both, and may take too much.
 */
export function unhinderedTimer(
  pids: readonly number[],
): () => { readonly longest: number; readonly all: number } {
  const startedMs = performance.now();
  const before = pids.map(processorWaitMs);
  return () => {
    const waits = pids.map((pid, at) => processorWaitMs(pid) - (before[at] ?? 0));
    const tookMs = performance.now() - startedMs;
    return {
      longest: tookMs - Math.max(...waits),
      all: tookMs - waits.reduce((sum, wait) => sum + wait, 0),
    };
  };
}
