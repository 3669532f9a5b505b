import type { Subprocess } from "bun";
import { until } from "../until.ts";
import { servingProcesses } from "./servingProcesses.ts";

/** One line of the gateway's log. */
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

const listenTimeoutMs = 30_000;
const endTimeoutMs = 15_000;
/** The gateway is killed when the process that started it is gone, also after SIGKILL. */
const endsWithParent = Bun.which("setpriv") === null ? [] : ["setpriv", "--pdeathsig", "KILL"];

/** A process of the compiled gateway that serves, of one start after another. */
export class ServingProcess {
  /** Its log lines, of all starts. */
  readonly log: LogLine[] = [];
  /** `http://127.0.0.1:PORT`, or the path of its socket; of its latest start. */
  url = "";
  readonly #command: readonly string[];
  readonly #folder: string;
  readonly #environment: Readonly<Record<string, string>>;
  #child: Subprocess<"ignore", "pipe", "pipe"> | undefined;

  constructor(
    command: readonly string[],
    folder: string,
    environment: Readonly<Record<string, string>> = {},
  ) {
    this.#command = command;
    this.#folder = folder;
    this.#environment = environment;
  }

  get pid(): number {
    return this.#running.pid;
  }

  /** Of all its processes, the main process first. */
  get pids(): readonly number[] {
    return [this.pid, ...servingProcesses(this)];
  }

  /** The exit status of its latest process; 137 after `kill -9`. */
  get ended(): Promise<number> {
    return this.#running.exited;
  }

  /** Starts it, or starts it once more. Resolves when it listens. */
  async start(): Promise<void> {
    const since = this.log.length;
    // The library of a faulty disk knows one process.
    const first = "LD_PRELOAD" in this.#environment ? [] : endsWithParent;
    const child = Bun.spawn([...first, ...this.#command], {
      cwd: this.#folder,
      env: { PATH: process.env["PATH"] ?? "", ...this.#environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    void this.#read(child.stdout);
    const stderr = child.stderr.text();
    const gone = child.exited.then(async (status) => {
      throw new Error(`the gateway ended with ${status}: ${await stderr}`);
    });
    gone.catch(() => undefined);
    const listening = this.logged("it listens", ({ msg }) => msg === "listening", since);
    const { address } = await Promise.race([listening, gone]);
    this.url = String(address);
  }

  /** Resolves with the first line that fits and is not older than `since`, a length of `log`. */
  async logged(what: string, fits: (line: LogLine) => boolean, since = 0): Promise<LogLine> {
    const find = () => this.log.slice(since).find(fits);
    await until(`the log says that ${what}`, () => find() !== undefined, listenTimeoutMs);
    const line = find();
    if (line === undefined) throw new Error("a line is gone from the log");
    return line;
  }

  /** Drops the log lines so far, in a long run. */
  forgetLog(): void {
    this.log.length = 0;
  }

  /** To the main process, as systemd and a terminal do. SIGSTOP and SIGCONT: to all processes. */
  signal(name: NodeJS.Signals): void {
    this.#running.kill(name);
    if (name === "SIGSTOP" || name === "SIGCONT")
      for (const pid of servingProcesses(this)) process.kill(pid, name);
  }

  /** `kill -9`; resolves when the process has ended. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#running.exited;
  }

  /** Stops it with SIGTERM, and expects status 0. Does nothing if it has ended. */
  async stop(): Promise<void> {
    const child = this.#running;
    if (child.exitCode !== null || child.signalCode !== null) return;
    this.signal("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), endTimeoutMs);
    const status = await child.exited;
    clearTimeout(late);
    if (status !== 0) throw new Error(`the gateway ended with ${status}`);
  }

  get #running(): Subprocess<"ignore", "pipe", "pipe"> {
    if (this.#child === undefined) throw new Error("the gateway was not started");
    return this.#child;
  }

  async #read(output: ReadableStream<Uint8Array>): Promise<void> {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const piece of output) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.log.push(JSON.parse(line) as LogLine);
    }
  }
}
