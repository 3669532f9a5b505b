import type { Subprocess } from "bun";
import { readFileSync } from "node:fs";

/** How long a process may take to end before it is killed. */
const END_MS_MAX = 5000;
/** The unit of CPU time in /proc: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
const TICK_US = 10_000;
const KIB = 1024;

export interface SpawnOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A file for both outputs. Without it stdout is dropped and stderr is shown. */
  readonly logFile?: string;
  readonly ipc?: (message: unknown) => void;
}

const running = new Set<Subprocess>();

/**
 * Starts a process that may open as many files as the system lets it. `endAll` ends it, if nobody
 * did before.
 */
export function spawn(command: readonly string[], options: SpawnOptions = {}): Subprocess {
  const { env, logFile, ipc } = options;
  const output = logFile === undefined ? undefined : Bun.file(logFile);
  const child = Bun.spawn(
    ["/bin/sh", "-c", 'ulimit -n "$(ulimit -H -n)"; exec "$@"', "sh", ...command],
    {
      env: env ?? { ...process.env },
      stdin: "ignore",
      stdout: output ?? "ignore",
      stderr: output ?? "inherit",
      ...(ipc === undefined ? {} : { ipc, serialization: "json" as const }),
    },
  );
  running.add(child);
  return child;
}

/** Sends SIGTERM to a process, waits for its end, and kills it if that takes too long. */
export async function end(child: Subprocess): Promise<void> {
  if (!running.delete(child)) return;
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
  await child.exited;
  clearTimeout(late);
}

/** Ends every process that is still there. */
export async function endAll(): Promise<void> {
  await Promise.all([...running].map(end));
}

/** User and system time of a process, all its threads and its children, in microseconds. */
export function cpuUs(pid: number): number {
  return family(pid).reduce((sumUs, member) => {
    // The name of a process may hold blanks and brackets; what follows the last bracket is fixed.
    const text = readFileSync(`/proc/${member}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return sumUs + (Number(fields[11]) + Number(fields[12])) * TICK_US;
  }, 0);
}

/** Memory of a process and its children that is in use, in bytes. */
export function residentBytes(pid: number): number {
  return family(pid).reduce((sum, member) => {
    const text = readFileSync(`/proc/${member}/status`, "latin1");
    return sum + Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * KIB;
  }, 0);
}

/** How many files a process started by `spawn` may have open. */
export function openFilesMax(): number {
  const text = readFileSync("/proc/self/limits", "latin1");
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(text)?.[1];
  return hard === "unlimited" ? Infinity : Number(hard);
}

function family(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1");
  return [pid, ...children.split(" ").filter(Boolean).map(Number)];
}
