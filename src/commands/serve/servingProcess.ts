import type { News, ServingProcess } from "../../app.ts";
import {
  checkEnvironment,
  forgetPostgresEnvironment,
  forgetProxyEnvironment,
} from "../../config/load.ts";
import type { MainWriter } from "../../database/sqlite.ts";
import { openMachineClock } from "../../lib/libc.ts";
import { SharedCells, tableBytes } from "../../limits/sharedCells.ts";
import { CommandFailure } from "../cli/print.ts";
import { openLogWriter } from "./logWriter.ts";
import type { FromProcess, StartProcess, ToProcess } from "./processMessages.ts";

/** The descriptor of the shared memory: the first one after those of every program. */
export const MEMORY_DESCRIPTOR = 3;

/** How often a process tells what it learns from each answer. */
const TELL_EVERY_MS = 100;

/** The clock that all processes have in common. Rejects with CommandFailure where there is none. */
export async function machineClock(): Promise<() => number> {
  const clock = await openMachineClock();
  if (clock) return clock;
  throw new CommandFailure(
    "server.processes: more than one process needs Linux, and glibc or musl: set processes = 1",
  );
}

/** Runs one of the serving processes of a gateway, until the main process stops it. */
export async function serveAsProcess(): Promise<void> {
  const main = new MainProcess();
  const start = await Promise.race([main.start, main.lost]);
  if (!start) return;
  checkEnvironment();
  forgetProxyEnvironment();
  const { startedWith } = start;
  if (startedWith.database.engine === "postgres") forgetPostgresEnvironment();
  const { startGateway } = await import("./gatewayServer.ts");
  const log = openLogWriter(true);
  const gateway = await startGateway(startedWith, log.write, {
    process: main.servingProcess(start, await machineClock()),
    reloaded: start.reloaded,
  }).catch((error: unknown) => {
    main.send({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
    throw error;
  });
  main.serve({
    reload: (config) => gateway.reload(config),
    probe: () => gateway.app.gateway.writer.probe(),
    metrics: async () => (await gateway.metrics?.values()) ?? [],
  });
  main.send({ kind: "listening", address: gateway.address });
  const over = Promise.race([gateway.broken, main.lost]);
  await Promise.race([main.stopping, over]);
  if (process.connected) await Promise.race([gateway.stop(main.cutNow), over]);
  await log.drain();
}

interface Served {
  reload(config: StartProcess["startedWith"]): void;
  /** Finds out whether the database can be written. */
  probe(): void;
  metrics(): Promise<Extract<FromProcess, { kind: "metrics" }>["values"]>;
}

/** The main process, as a serving process has it. */
class MainProcess {
  readonly start: Promise<StartProcess>;
  readonly stopping: Promise<void>;
  readonly cutNow: Promise<void>;
  /** Resolves when the main process has ended. No charge can be written then. */
  readonly lost: Promise<undefined>;
  readonly #started = Promise.withResolvers<StartProcess>();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #cut = Promise.withResolvers<void>();
  #outcome: ((outcome: string) => void) | undefined;
  #onWanted: ((accountId: number) => void) | undefined;
  #onNews: ((news: News) => void) | undefined;
  #untold: News[] = [];
  #telling: Timer | undefined;
  #served: Served | undefined;
  /** The config of a reload that the gateway does not have yet. */
  #reloaded: StartProcess["startedWith"] | undefined;

  constructor() {
    this.start = this.#started.promise;
    this.stopping = this.#stopped.promise;
    this.cutNow = this.#cut.promise;
    if (process.send === undefined)
      throw new CommandFailure("this command is for the gateway itself: run `tollgate serve`");
    // A terminal and systemd send signals to all processes of a group. The main process tells what to do.
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
    const lost = Promise.withResolvers<undefined>();
    this.lost = lost.promise;
    process.on("disconnect", () => lost.resolve(undefined));
    process.on("message", (message) => this.#receive(message as ToProcess));
    this.send({ kind: "ready" });
  }

  send(message: FromProcess): void {
    if (process.connected) process.send?.(message);
  }

  serve(served: Served): void {
    this.#served = served;
    if (this.#reloaded) served.reload(this.#reloaded);
  }

  servingProcess({ number, count }: StartProcess, machineMs: () => number): ServingProcess {
    const memory = Bun.mmap(`/proc/self/fd/${MEMORY_DESCRIPTOR}`, { shared: true }).buffer;
    const writer: MainWriter = {
      start: (onReady) => onReady(),
      run: (sent) => {
        this.send({ kind: "batch", sent });
        return new Promise((resolve) => {
          this.#outcome = resolve;
        });
      },
      close: () => Promise.resolve(),
      onWanted: (listener) => {
        this.#onWanted = listener;
      },
    };
    return {
      count,
      cells: new SharedCells(memory, { at: 0, process: number, machineMs }).find,
      addresses: new SharedCells(memory, { at: tableBytes(count), process: number, machineMs })
        .find,
      writer,
      tell: (news) => this.#tell(news),
      onNews: (listener) => {
        this.#onNews = listener;
      },
    };
  }

  /** What came with finished answers is told together. The rest is urgent. */
  #tell(news: News): void {
    this.#untold.push(news);
    if (news.kind === "speed" || news.kind === "streamEnded")
      this.#telling ??= setTimeout(() => this.#tellAll(), TELL_EVERY_MS);
    else this.#tellAll();
  }

  #tellAll(): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    this.send({ kind: "news", news: this.#untold.splice(0) });
  }

  #receive(message: ToProcess): void {
    switch (message.kind) {
      case "start":
        this.#reloaded = message.reloaded;
        return this.#started.resolve(message);
      case "outcome":
        return this.#outcome?.(message.outcome);
      case "wanted":
        return message.accounts.forEach((account) => this.#onWanted?.(account));
      case "blocked":
        return this.#served?.probe();
      case "news":
        return message.news.forEach((news) => this.#onNews?.(news));
      case "reload":
        this.#reloaded = message.config;
        return this.#served?.reload(message.config);
      case "readMetrics":
        return void this.#readMetrics(message.id);
      case "stop":
        return this.#stopped.resolve();
      case "cutNow":
        return this.#cut.resolve();
    }
  }

  async #readMetrics(id: number): Promise<void> {
    const values = (await this.#served?.metrics()) ?? [];
    this.send({ kind: "metrics", id, values });
  }
}
