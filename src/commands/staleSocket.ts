import { lstatSync, rmSync } from "node:fs";
import { errorCode } from "../lib/errorCode.ts";

/**
 * Removes a unix socket that a crash left behind. One that somebody answers on stays, and so does a file
 * that is no socket, which a mistaken path may name: listening there then fails.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
    const probe = await Bun.connect({ unix: path, socket: { data() {} } });
    probe.end();
  } catch (error) {
    // Any other failure, such as a socket that is another user's, does not say that nobody listens: listening tells.
    if (errorCode(error) === "ECONNREFUSED") rmSync(path);
  }
}
