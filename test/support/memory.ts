import { readFileSync } from "node:fs";

/** https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html: the second figure is resident pages. */
const pageBytes = 4096;
const sampledEveryMs = 2;

/** Bytes of a process that are resident now. Linux only. */
export function residentBytes(pid: number): number {
  const [, pages] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ");
  return Number(pages) * pageBytes;
}

/** How many bytes a process grew by at most while the work was done. */
export async function growthDuring(pid: number, work: () => Promise<void>): Promise<number> {
  const before = residentBytes(pid);
  let most = before;
  const look = (): void => {
    most = Math.max(most, residentBytes(pid));
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
  { url, pid }: { readonly url: string; readonly pid: number },
  enough: number,
  withinMs: number,
): Promise<number> {
  const endMs = performance.now() + withinMs;
  let least = residentBytes(pid);
  while (least > enough && performance.now() < endMs) {
    // Work makes the runtime collect what nobody refers to any more.
    await (await fetch(`${url}/healthz`)).text();
    least = Math.min(least, residentBytes(pid));
  }
  return least;
}
