import { readFileSync } from "node:fs";

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
