import { existsSync, rmSync } from "node:fs";

/** Removes a unix socket that a crash left behind. One that somebody answers on stays, and listening there fails. */
export async function removeStaleSocket(path: string): Promise<void> {
  if (!existsSync(path)) return;
  try {
    const probe = await Bun.connect({ unix: path, socket: { data() {} } });
    probe.end();
  } catch {
    rmSync(path);
  }
}
