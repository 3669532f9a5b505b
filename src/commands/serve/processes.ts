import { closeSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import { type FileOfProcesses, openFileOfProcesses } from "../../database/sqlite.ts";
import type { UpgradeChoice } from "../../database/servedDatabase.ts";
import { assert } from "../../lib/assert.ts";
import { formatRoubles } from "../../lib/money.ts";
import { errorCode } from "../../lib/systemError.ts";
import { version } from "../../lib/version.ts";
import { SharedCells, tableBytes } from "../../limits/sharedCells.ts";
import type { Interrupted } from "../../store/open.ts";
import { StoppedError } from "../../store/store.ts";
import { createLog, type Log } from "../../telemetry/log.ts";
import type { MetricValues, ReadableMetrics } from "../../telemetry/metrics.ts";
import { CommandFailure } from "../cli/print.ts";
import { listenProblem, type Listener } from "./listener.ts";
import { databaseFailure, type RunningGateway } from "./gatewayServer.ts";
import type { FromProcess, StartProcess, ToProcess } from "./processMessages.ts";
import { machineClock } from "./servingProcess.ts";

/** A process that cannot start is tried again after this time, which doubles each time, up to the maximum. */
const PAUSE_MS = 100;
const PAUSE_MS_MAX = 5000;
/** A process that ends within this time counts as one that cannot start. */
const SHORT_LIFE_MS = 1000;
const ORDERLY_END = "exit status 0";
/** A process that hangs at the stop is killed after delay, grace, and this time, in which aborted requests are settled. */
const END_MS_MAX = 25_000;
/** How long a port may be in use: the processes of a main process that was killed end a moment later. */
const PORT_MS_MAX = 2000;
/** How long the main process waits for the metrics of one process. */
const METRICS_MS = 2000;
/** How long the main process waits until it tries again to release what an ended process had reserved. */
const RELEASE_AGAIN_MS = 1000;

interface Services {
  readonly log: Log;
  readonly count: number;
  /** Undefined for a database on a server, which the processes reach themselves. */
  readonly file: FileOfProcesses | undefined;
  /** The descriptor of the memory that the processes share. */
  readonly memory: number;
  readonly machineMs: () => number;
}

/** Starts a gateway with several serving processes. Rejects with StoreError, StoppedError and CommandFailure. */
export async function startProcesses(
  config: Config,
  writeLog: (lines: string) => void,
  upgrade: UpgradeChoice,
  count: number,
): Promise<RunningGateway> {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  const log = createLog(config.log, writeLog);
  const fatal = (message: string): void => {
    log.error("database_failed", { problem: message });
    log.flush();
    broken.reject(databaseFailure(config, message));
  };
  const machineMs = await machineClock();
  const startedWith = await withPort(config);
  const { database } = config;
  const file =
    database.engine === "sqlite"
      ? await openFileOfProcesses(database, { log, upgrade, fatal })
      : undefined;
  const memory = sharedMemory(count);
  let isStopped = false;
  void upgrade.stopped.then(() => (isStopped = true));
  const processes = new Processes(startedWith, { log, count, file, memory, machineMs });
  const closeAll = async (): Promise<void> => {
    await processes.ended();
    closeSync(memory);
    await file?.close();
    log.flush();
  };
  try {
    const address = await processes.start();
    const { metrics, listener } = await openMetrics(config, processes);
    if (listener) log.info("listening for metrics", { address: listener.address });
    const { bun, sqlite } = process.versions;
    log.info("listening", { address, version: version(), bun, sqlite, count });
    return {
      startedWith: config,
      log,
      broken: broken.promise,
      reloaded: (isTaken) => metrics?.reloaded(isTaken),
      reload: (next) => processes.reload(next),
      async stop(cutNow) {
        const { drainDelayMs } = config.server;
        log.info("draining", { duration_ms: drainDelayMs });
        processes.stop();
        const graceMs = drainDelayMs + config.server.shutdownGraceMs;
        const late = setTimeout(() => processes.kill(), graceMs + END_MS_MAX);
        void cutNow.then(() => processes.cutNow());
        await processes.ended();
        clearTimeout(late);
        await listener?.close(Promise.resolve());
        log.info("stopped");
        await closeAll();
      },
    };
  } catch (error) {
    processes.stop();
    processes.cutNow();
    await closeAll();
    // A signal to the group of processes ends one that has just started.
    throw isStopped ? new StoppedError("stopped at the start") : error;
  }
}

/**
 * The config with the port that all processes use. Each of them lets others listen at it, so a port that another program uses
 * is found here. Throws CommandFailure.
 */
async function withPort(config: Config): Promise<Config> {
  const { listen } = config.server;
  assert(listen.kind === "tcp", "several processes on a Unix socket");
  const endsAtMs = performance.now() + PORT_MS_MAX;
  for (;;) {
    try {
      const port = await probePort(listen);
      return { ...config, server: { ...config.server, listen: { ...listen, port } } };
    } catch (cause) {
      const mayPass = errorCode(cause) === "EADDRINUSE" && performance.now() < endsAtMs;
      if (!mayPass) throw await listenProblem(cause, listen);
    }
    await Bun.sleep(PAUSE_MS);
  }
}

/** Listens alone for a moment. Resolves with the port. Rejects with the system's error. */
async function probePort({ host, port }: { host: string; port: number }): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once("error", reject);
    probe.listen({ host, port, exclusive: true }, resolve);
  });
  const found = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return typeof found === "object" && found !== null ? found.port : port;
}

/** A file in memory that only its descriptor names: for the limits of keys and of addresses. */
function sharedMemory(count: number): number {
  const name = `tollgate-${process.pid}-${crypto.randomUUID()}`;
  for (const folder of ["/dev/shm", tmpdir()]) {
    try {
      const path = join(folder, name);
      const descriptor = openSync(path, "wx+", 0o600);
      rmSync(path);
      // The system kills a process that first uses a page when the folder is full, so all pages are there from the start.
      writeFileSync(descriptor, new Uint8Array(2 * tableBytes(count)));
      return descriptor;
    } catch (error) {
      if (folder === tmpdir())
        throw new CommandFailure(
          `several processes need a file in memory, and neither /dev/shm nor ${folder} can be written (${errorCode(error)}): set processes = 1, or make one of them writable`,
          { cause: error },
        );
    }
  }
  throw new Error("no folder");
}

interface OpenMetrics {
  readonly metrics: ReadableMetrics | undefined;
  readonly listener: Listener | undefined;
}

async function openMetrics(config: Config, processes: Processes): Promise<OpenMetrics> {
  if (!config.metrics) return { metrics: undefined, listener: undefined };
  const { createPrometheusMetrics, exposeAll, leftBy } =
    await import("../../telemetry/prometheus.ts");
  const { openMetricsListener } = await import("./gatewayServer.ts");
  const own = createPrometheusMetrics();
  let left: readonly MetricValues[] = [];
  const readAll = async (): Promise<string> => {
    const found = await processes.metrics();
    left = [await leftBy([...left, ...found.left])];
    return await exposeAll([await own.values(), ...left, ...found.running]);
  };
  let reading: Promise<string> | undefined;
  const metrics: ReadableMetrics = {
    ...own,
    // Two scrapes at once have one answer: each adds to what the one before has found.
    read: () =>
      (reading ??= readAll().finally(() => {
        reading = undefined;
      })),
  };
  return { metrics: own, listener: await openMetricsListener(metrics, config.metrics) };
}

/** All serving processes of a gateway. */
class Processes {
  readonly #startedWith: Config;
  readonly #services: Services;
  readonly #cells: SharedCells;
  readonly #running = new Set<Running>();
  readonly #leftMetrics: MetricValues[] = [];
  /** How often in a row a process of this number could not start, or ended at once. */
  readonly #failures = new Map<number, number>();
  #reloaded: Config | undefined;
  #isStopping = false;
  #isCut = false;
  #ended: (() => void) | undefined;

  constructor(startedWith: Config, services: Services) {
    this.#startedWith = startedWith;
    this.#services = services;
    const view = Bun.mmap(`/proc/self/fd/${services.memory}`, { shared: true }).buffer;
    this.#cells = new SharedCells(view, { at: 0, process: 0, machineMs: services.machineMs });
  }

  /** Starts all. Resolves with their address, and rejects with CommandFailure if one cannot start. */
  async start(): Promise<string> {
    const numbers = Array.from({ length: this.#services.count }, (_, number) => number);
    const [address = ""] = await Promise.all(numbers.map((number) => this.#spawn(number)));
    return address;
  }

  reload(config: Config): void {
    this.#reloaded = config;
    this.#tellAll({ kind: "reload", config });
  }

  stop(): void {
    this.#isStopping = true;
    this.#tellAll({ kind: "stop" });
  }

  cutNow(): void {
    this.#isCut = true;
    this.#tellAll({ kind: "cutNow" });
    setTimeout(() => this.kill(), END_MS_MAX).unref();
  }

  /** Kills those that still run. */
  kill(): void {
    for (const running of this.#running) running.kill();
  }

  /** Resolves when no process runs and what they had reserved is released. */
  async ended(): Promise<void> {
    if (this.#running.size > 0)
      await new Promise<void>((resolve) => {
        this.#ended = resolve;
      });
  }

  /** The metrics of the processes that run, and the last ones of those that have ended since the last call. */
  async metrics(): Promise<Record<"running" | "left", readonly MetricValues[]>> {
    const asked = [...this.#running];
    await Promise.all(asked.map((running) => running.readMetrics()));
    // Now a process is in one of both.
    const running = asked.filter(({ hasEnded }) => !hasEnded);
    return {
      running: running.flatMap(({ lastMetrics }) => (lastMetrics ? [lastMetrics] : [])),
      left: this.#leftMetrics.splice(0),
    };
  }

  #tellAll(message: ToProcess, except?: Running): void {
    for (const running of this.#running) if (running !== except) running.send(message);
  }

  async #spawn(number: number): Promise<string> {
    const writer = this.#services.file?.writer;
    const running = new Running(number, this.#services.memory, {
      onMessage: (message) => this.#receive(running, replica, message),
      onEnd: (reason) => void this.#processEnded(running, replica, reason),
    });
    // A process that is started again is another replica.
    const replica = writer?.join({
      answered: (outcome) => running.send({ kind: "outcome", outcome }),
      wanted: (accounts) => running.send({ kind: "wanted", accounts }),
      blocked: () => running.send({ kind: "blocked" }),
    });
    this.#running.add(running);
    return await running.listening;
  }

  #receive(from: Running, replica: number | undefined, message: FromProcess): void {
    switch (message.kind) {
      case "ready":
        return this.#startProcess(from);
      case "batch":
        if (replica !== undefined) this.#services.file?.writer.run(replica, message.sent);
        return;
      case "news":
        return this.#tellAll(message, from);
      case "listening":
      case "metrics":
      case "failed":
      // The process itself.
    }
  }

  /** What was told to all before is in the first messages. */
  #startProcess(running: Running): void {
    const { count } = this.#services;
    const { number } = running;
    const [startedWith, reloaded] = [this.#startedWith, this.#reloaded];
    running.begin({ kind: "start", startedWith, reloaded, number, count });
    if (this.#isStopping) running.send({ kind: "stop" });
    if (this.#isCut) running.send({ kind: "cutNow" });
  }

  async #processEnded(
    running: Running,
    replica: number | undefined,
    reason: string,
  ): Promise<void> {
    const { log } = this.#services;
    const { number } = running;
    if (running.hasListened) {
      const what = { count: number + 1, problem: reason };
      if (!this.#isStopping) {
        log.error("process_ended", what);
        const isShort = performance.now() - running.startedMs < SHORT_LIFE_MS;
        this.#failures.set(number, isShort ? (this.#failures.get(number) ?? 0) + 1 : 0);
        void this.#spawnAgain(number);
      } else if (reason !== ORDERLY_END) log.warn("process_ended_at_stop", what);
    }
    this.#cells.ended(number);
    if (running.lastMetrics) this.#leftMetrics.push(running.lastMetrics);
    const interrupted = replica === undefined ? undefined : await this.#release(replica);
    if (interrupted && interrupted.count > 0)
      log.warn("process_interrupted", {
        count: interrupted.count,
        held_rub: formatRoubles(interrupted.reserved),
      });
    this.#running.delete(running);
    if (this.#running.size === 0) this.#ended?.();
  }

  async #spawnAgain(number: number): Promise<void> {
    const failures = this.#failures.get(number) ?? 0;
    const pauseMs = failures === 0 ? 0 : Math.min(PAUSE_MS * 2 ** failures, PAUSE_MS_MAX);
    if (pauseMs > 0) await Bun.sleep(pauseMs);
    if (this.#isStopping) return;
    try {
      await this.#spawn(number);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      this.#services.log.error("process_ended", { count: number + 1, problem });
      this.#failures.set(number, failures + 1);
      void this.#spawnAgain(number);
    }
  }

  async #release(replica: number): Promise<Interrupted | undefined> {
    const writer = this.#services.file?.writer;
    for (;;) {
      const interrupted = writer?.end(replica);
      // If the gateway stops, the next start releases it.
      if (interrupted || writer?.isBroken || this.#isStopping) return interrupted;
      await Bun.sleep(RELEASE_AGAIN_MS);
    }
  }
}

interface RunningListener {
  onMessage(message: FromProcess): void;
  onEnd(reason: string): void;
}

/** One serving process that runs. */
class Running {
  readonly number: number;
  readonly startedMs = performance.now();
  /** Resolves with the address. Rejects with CommandFailure if the process ends before. */
  readonly listening: Promise<string>;
  hasListened = false;
  hasEnded = false;
  lastMetrics: MetricValues | undefined;
  readonly #process: Bun.Subprocess;
  readonly #listening = Promise.withResolvers<string>();
  readonly #asked = new Map<number, (values: MetricValues | undefined) => void>();
  #questions = 0;
  /** It has its first message, and has not ended. */
  #canReceive = false;

  constructor(number: number, memory: number, on: RunningListener) {
    this.number = number;
    this.listening = this.#listening.promise;
    this.listening.catch(() => undefined);
    this.#process = Bun.spawn([...program(), "serve", "--as-process"], {
      stdio: ["ignore", "inherit", "inherit", memory],
      serialization: "advanced",
      ipc: (message: FromProcess) => {
        if (message.kind === "failed") this.#fail(message.message);
        else if (message.kind === "metrics") this.#asked.get(message.id)?.(message.values);
        else if (message.kind === "listening") {
          this.hasListened = true;
          this.#listening.resolve(message.address);
        } else on.onMessage(message);
      },
      onExit: (_, code, signal) => {
        this.#canReceive = false;
        this.hasEnded = true;
        const reason = typeof signal === "string" ? signal : `exit status ${code}`;
        for (const answer of this.#asked.values()) answer(undefined);
        this.#fail(`a serving process ended at its start: ${reason}`);
        on.onEnd(reason);
      },
    });
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }

  /** The process is ready for its first message. */
  begin(start: StartProcess): void {
    this.#canReceive = true;
    this.send(start);
  }

  /** Does nothing before the first message and after the end. */
  send(message: ToProcess): void {
    if (!this.#canReceive) return;
    try {
      this.#process.send(message);
    } catch (error) {
      // The channel of a killed process closes before its end is known.
      if (errorCode(error) !== "ERR_IPC_CHANNEL_CLOSED") throw error;
      this.#canReceive = false;
    }
  }

  /** Puts its values into `lastMetrics`, unless it does not answer in time. */
  readMetrics(): Promise<void> {
    if (!this.#canReceive) return Promise.resolve();
    const id = (this.#questions += 1);
    return new Promise((resolve) => {
      const answer = (values: MetricValues | undefined): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
        this.lastMetrics = values ?? this.lastMetrics;
        resolve();
      };
      const timer = setTimeout(() => answer(undefined), METRICS_MS);
      this.#asked.set(id, answer);
      this.send({ kind: "readMetrics", id });
    });
  }

  #fail(message: string): void {
    this.#listening.reject(new CommandFailure(message));
  }
}

/** This program, and what stands before the arguments of its command line. */
function program(): readonly string[] {
  return [executable(), ...(Bun.isStandaloneExecutable ? [] : [Bun.main])];
}

/** Its file may have been replaced or removed since the start, and all processes must be of one version. */
function executable(): string {
  const running = "/proc/self/exe";
  const { dev, ino } = statSync(running);
  const named = statSync(process.execPath, { throwIfNoEntry: false });
  return named?.dev === dev && named.ino === ino ? process.execPath : running;
}
