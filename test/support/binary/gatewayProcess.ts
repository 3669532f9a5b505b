import { Database } from "bun:sqlite";
import type { Subprocess } from "bun";
import { statSync } from "node:fs";
import { openAuditor, type Auditor } from "../auditor/auditor.ts";
import { binaryPath } from "./binary.ts";
import { auditProblemsAtRest } from "../store/auditProblems.ts";
import { openCliFolder, type CliFolder } from "./cli.ts";
import { configText, type GatewayConfig } from "../gateway/gatewayConfig.ts";
import { until } from "../until.ts";

/** One line of the gateway's log. */
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

/** A request in the form of `tollgate requests show --json`. */
export interface RequestRecord {
  readonly id: string;
  readonly status: string;
  readonly endpoint: string;
  readonly stream: boolean;
  readonly provider: string | null;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
  readonly estimated: boolean;
  readonly cost_rub: string;
  readonly hold_rub: string;
}

/** The running compiled gateway in its own folder, with its commands. */
export interface GatewayProcess {
  readonly cli: CliFolder;
  /** Runs with every audit, if the database is in the usual place. */
  readonly auditor: Auditor;
  /** `http://127.0.0.1:PORT`, or the path of its socket; of its latest start. */
  readonly url: string;
  readonly pid: number;
  /** Its log lines, of all starts. */
  readonly log: readonly LogLine[];
  /** The exit status of its latest process; 137 after `kill -9`. */
  readonly ended: Promise<number>;
  /** Resolves with the first line that fits and is not older than `since`, a length of `log`. */
  logged(what: string, fits: (line: LogLine) => boolean, since?: number): Promise<LogLine>;
  /** Drops the log lines so far, in a long run. */
  forgetLog(): void;
  /** Creates a key, and its account if needed, and credits this amount in roubles. */
  key(account: string, roubles: string, ...flags: readonly string[]): Promise<string>;
  /** The record of a request, once it has ended. */
  request(id: string): Promise<RequestRecord>;
  /** Resolves when a running request has its row: some time after its beginning. */
  lateRow(): Promise<void>;
  /** Resolves when nothing of the account's money is reserved any more: some time after its last request. */
  unreserved(account: string): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** `kill -9`; resolves when the process has ended. */
  kill(): Promise<void>;
  /** Starts it once more, in the same folder. */
  start(): Promise<void>;
  /** Throws if an audit finds a problem or money stays held. */
  expectAuditPasses(): Promise<void>;
  /** Stops it with SIGTERM, expects status 0, runs the audits, and removes the folder. */
  close(): Promise<void>;
}

export interface GatewayProcessOptions {
  /** The environment, in addition to PATH. */
  readonly environment?: Readonly<Record<string, string>>;
  /** A command that is put before the gateway's own; none unless given. */
  readonly launcher?: readonly string[];
  /** Prepares the folder before the start; the result is added to the environment. */
  readonly prepare?: (cli: CliFolder) => Promise<void | Readonly<Record<string, string>>>;
}

/** Building comes first, so a `beforeAll` that starts a gateway needs a time-out of this. */
export const startTimeoutMs = 60_000;
const listenTimeoutMs = 30_000;
/**
 * The auditor reads the whole database at once, in this process. After a day of load only the command can check it,
 * which takes the time of a start.
 */
const auditedBytesMax = 512 * 1_048_576;
const endTimeoutMs = 15_000;
/** A request of a disconnected client may end a little later. */
const restTimeoutMs = 2000;

/** Starts the compiled gateway, and resolves when it listens. Close it, also after a failure. */
export async function startGatewayProcess(
  config: GatewayConfig,
  options: GatewayProcessOptions = {},
): Promise<GatewayProcess> {
  const binary = await binaryPath();
  const cli = await openCliFolder(configText(config), [binary]);
  const prepared = await options.prepare?.(cli);
  const command = [...(options.launcher ?? []), binary, "serve"];
  const gateway = new BinaryGateway(cli, command, { ...options.environment, ...prepared });
  try {
    await gateway.start();
  } catch (error) {
    await cli.remove();
    throw error;
  }
  return gateway;
}

class BinaryGateway implements GatewayProcess {
  readonly cli: CliFolder;
  readonly auditor: Auditor;
  readonly log: LogLine[] = [];
  url = "";
  readonly #command: readonly string[];
  readonly #environment: Readonly<Record<string, string>>;
  #child: Subprocess<"ignore", "pipe", "pipe"> | undefined;

  constructor(
    cli: CliFolder,
    command: readonly string[],
    environment: Readonly<Record<string, string>>,
  ) {
    this.cli = cli;
    this.auditor = openAuditor(cli.database);
    this.#command = command;
    this.#environment = environment;
  }

  get pid(): number {
    return this.#running.pid;
  }

  get ended(): Promise<number> {
    return this.#running.exited;
  }

  async start(): Promise<void> {
    const since = this.log.length;
    const child = Bun.spawn([...this.#command], {
      cwd: this.cli.folder,
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

  async logged(what: string, fits: (line: LogLine) => boolean, since = 0): Promise<LogLine> {
    const find = () => this.log.slice(since).find(fits);
    await until(`the log says that ${what}`, () => find() !== undefined, listenTimeoutMs);
    const line = find();
    if (line === undefined) throw new Error("a line is gone from the log");
    return line;
  }

  forgetLog(): void {
    this.log.length = 0;
  }

  async key(account: string, roubles: string, ...flags: readonly string[]): Promise<string> {
    const made = await this.cli.json("keys", "create", "--account", account, ...flags);
    if (roubles !== "0") await this.cli.json("balance", "credit", account, roubles);
    return (made as { key: string }).key;
  }

  async request(id: string): Promise<RequestRecord> {
    const deadlineMs = performance.now() + endTimeoutMs;
    for (;;) {
      // A request has no record at its beginning.
      const { status, stdout, stderr } = await this.cli.run("requests", "show", id, "--json");
      const record = status === 0 ? (JSON.parse(stdout) as RequestRecord) : undefined;
      if (record !== undefined && record.status !== "running") return record;
      if (performance.now() > deadlineMs) throw new Error(`request ${id} does not end: ${stderr}`);
    }
  }

  async lateRow(): Promise<void> {
    const running = new Database(this.cli.database, { readonly: true });
    const row = running.query("SELECT 1 FROM requests WHERE status = 'running'");
    await until("a running request has its row", () => row.get() !== null);
    running.close();
  }

  async unreserved(account: string): Promise<void> {
    const deadlineMs = performance.now() + endTimeoutMs;
    for (;;) {
      const shown = (await this.cli.json("balance", "show", account)) as { held_rub: string };
      if (shown.held_rub === "0") return;
      if (performance.now() > deadlineMs)
        throw new Error(`${shown.held_rub} roubles stay reserved`);
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#running.kill(name);
  }

  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#running.exited;
  }

  async expectAuditPasses(): Promise<void> {
    const size = statSync(this.cli.database, { throwIfNoEntry: false })?.size;
    if (size === undefined || size >= auditedBytesMax) return this.#auditByCommand();
    const problems = await auditProblemsAtRest(this, restTimeoutMs);
    if (problems.length > 0) throw new Error(problems.join("\n"));
  }

  async close(): Promise<void> {
    const child = this.#running;
    try {
      if (child.exitCode === null && child.signalCode === null) {
        this.signal("SIGTERM");
        const late = setTimeout(() => child.kill("SIGKILL"), endTimeoutMs);
        const status = await child.exited;
        clearTimeout(late);
        if (status !== 0) throw new Error(`the gateway ended with ${status}`);
      }
      await this.expectAuditPasses();
    } finally {
      await this.cli.remove();
    }
  }

  async #auditByCommand(): Promise<void> {
    const { status, stdout, stderr } = await this.cli.run("audit", "--json");
    if (status !== 0) throw new Error(`the audit found problems: ${stdout}${stderr}`);
    const running = JSON.stringify(await this.cli.json("requests", "--status", "running"));
    if (running !== "[]") throw new Error(`something is still held: ${running}`);
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
