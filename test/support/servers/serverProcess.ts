import type { Subprocess } from "bun";
import { rm } from "node:fs/promises";

/** The longest time for the start and for the end of a server. */
const PATIENCE_MS = 30_000;

/**
 * Ends the server and removes its folder when the process that started it is gone, also after SIGKILL: its end closes the
 * standard input. Each line of the input is the server's number, or empty while none runs. Signals of a terminal go to
 * the whole group of processes and must not end the watch.
 */
const WATCH = `trap '' INT TERM HUP
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
  kill -CONT "$pid"; kill -"$2" "$pid"
  for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" || break; sleep 0.1; done
  kill -KILL "$pid"
fi
rm -rf "$1"`;

export interface ServerCommand {
  readonly command: readonly string[];
  /** A folder of its own. It is removed at the end. */
  readonly folder: string;
  /** Ends the server at once and in order. */
  readonly endSignal: "SIGINT" | "SIGTERM" | "SIGQUIT";
  /** Whether the server answers. */
  readonly isReady: () => Promise<boolean>;
}

/** A server for tests. It never outlives the process that started it, whatever happens to that process. */
export class ServerProcess {
  readonly #server: ServerCommand;
  readonly #watch: Subprocess<"pipe", "ignore", "ignore">;
  #running: Subprocess<"ignore", "ignore", "pipe"> | undefined;

  constructor(server: ServerCommand) {
    this.#server = server;
    const signal = server.endSignal.slice("SIG".length);
    this.#watch = Bun.spawn(["sh", "-c", WATCH, "sh", server.folder, signal], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#watch.unref();
  }

  /** The number of the server's process. Undefined while none runs. */
  get pid(): number | undefined {
    return this.#running?.pid;
  }

  /** Resolves when the server answers. A server that ends before is started again: the port or memory may be in use. */
  async start(): Promise<void> {
    const deadlineMs = performance.now() + PATIENCE_MS;
    let output = "";
    while (performance.now() < deadlineMs) {
      const running = Bun.spawn([...this.#server.command], {
        cwd: "/",
        stdio: ["ignore", "ignore", "pipe"],
      });
      running.unref();
      this.#running = running;
      this.#tellWatch(running.pid);
      const read = new Response(running.stderr).text().catch(() => "");
      while (running.exitCode === null && running.signalCode === null) {
        if (await this.#server.isReady()) return;
        if (performance.now() > deadlineMs) await this.kill();
        await Bun.sleep(20);
      }
      output = await read;
    }
    throw new Error(`the server did not start: ${output}`);
  }

  /** Ends the server in order. Its data stay. */
  async end(signal: NodeJS.Signals = this.#server.endSignal): Promise<void> {
    this.resume();
    await this.#signal(signal);
  }

  /** Ends the server without a chance to do anything. Its data stay. */
  async kill(): Promise<void> {
    await this.#signal("SIGKILL");
  }

  /** Stops the process itself, as SIGSTOP does: its connections stay open and get no answer. */
  pause(): void {
    this.#running?.kill("SIGSTOP");
  }

  resume(): void {
    this.#running?.kill("SIGCONT");
  }

  /** Ends the server and removes its folder. */
  async close(): Promise<void> {
    await this.end();
    await this.#watch.stdin.end();
    await this.#watch.exited;
    await rm(this.#server.folder, { recursive: true, force: true });
  }

  async #signal(signal: NodeJS.Signals): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    running.kill(signal);
    const late = setTimeout(() => running.kill("SIGKILL"), PATIENCE_MS);
    await running.exited;
    clearTimeout(late);
    this.#running = undefined;
    this.#tellWatch(undefined);
  }

  #tellWatch(pid: number | undefined): void {
    void this.#watch.stdin.write(`${pid ?? ""}\n`);
    void this.#watch.stdin.flush();
  }
}

/** A port of 127.0.0.1 that nobody listens on at this moment. */
export function freePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return port;
}
