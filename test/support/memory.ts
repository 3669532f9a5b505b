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
