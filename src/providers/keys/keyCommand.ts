import { Deadline, type Deadlines } from "../../lib/clock.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import { KeyError, readIssuedKey, type IssuedKey } from "./issuedKey.ts";

const TIMEOUT_MS = 30_000;
const OUTPUT_BYTES_MAX = 65_536;

/**
 * Runs a command that writes a key, without a shell. What it writes as an error is dropped: it may have a secret. A command
 * that takes or writes too much is killed with the processes that it started.
 */
export async function runKeyCommand(
  command: readonly string[],
  deadlines: Deadlines,
  signal: AbortSignal,
): Promise<IssuedKey> {
  const child = start(command);
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => undefined);
  const stop = (problem: string): void => {
    killWithChildren(child.pid);
    stopped.reject(new KeyError(problem));
  };
  const timeout = new Deadline(deadlines, () =>
    stop(`the command did not end within ${TIMEOUT_MS / 1000} s`),
  );
  const onAbort = (): void => stop("the gateway stops");
  timeout.set(TIMEOUT_MS);
  signal.addEventListener("abort", onAbort);
  try {
    const output = await Promise.race([outputOf(child, stop), stopped.promise]);
    return readIssuedKey(output, deadlines.clock.epochMs());
  } finally {
    timeout.clear();
    signal.removeEventListener("abort", onAbort);
  }
}

type Child = Bun.Subprocess<"ignore", "pipe", "ignore">;

function start(command: readonly string[]): Child {
  try {
    // A group of its own can be killed as a whole.
    return Bun.spawn([...command], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
      detached: true,
    });
  } catch (error) {
    throw new KeyError(`the command cannot be started: ${fileErrorReason(error)}`);
  }
}

async function outputOf(child: Child, stop: (problem: string) => void): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of child.stdout) {
    bytes += piece.length;
    if (bytes > OUTPUT_BYTES_MAX) stop(`the command wrote more than ${OUTPUT_BYTES_MAX} bytes`);
    else pieces.push(piece);
  }
  const status = await child.exited;
  if (child.signalCode !== null) throw new KeyError(`the command was ended by ${child.signalCode}`);
  if (status !== 0) throw new KeyError(`the command ended with the exit status ${status}`);
  return Buffer.concat(pieces).toString();
}

function killWithChildren(pid: number): void {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
