import { readdirSync, readFileSync } from "node:fs";

/** The serving processes of a gateway that has several. */
export function servingProcesses({ pid }: { readonly pid: number }): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((one) => parentOf(one) === pid);
}

/** How many sockets of this machine listen at a port of IPv4: each serving process has one. */
export function listenersAt(port: number): number {
  const LISTEN = "0A";
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return readFileSync("/proc/net/tcp", "latin1")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, address = "", , state]) => state === LISTEN && address.endsWith(local)).length;
}

/** Undefined for a process that has ended. */
export function parentOf(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? undefined : Number(parent);
  } catch {
    return undefined;
  }
}
