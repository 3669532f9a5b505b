import { type Command, Option } from "commander";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import {
  checkEnvironment,
  ConfigError,
  forgetPostgresEnvironment,
  forgetProxyEnvironment,
  loadConfig,
  type Environment,
} from "../../config/load.ts";
import { memoryBytes } from "../../limits/bodyBudget.ts";
import { errorClass } from "../../telemetry/log.ts";
import type { RunningGateway } from "./gatewayServer.ts";
import { openLogWriter, type LogWriter } from "./logWriter.ts";
import { globalOptions, listenForStop, type StopSignals } from "../cli/session.ts";
import type { Config } from "../../config/schema.ts";
import { changedAtStart } from "../../config/sections.ts";
import type { UpgradeChoice } from "../../database/servedDatabase.ts";
import { StoppedError } from "../../store/store.ts";
import { REWRITE_UNIT } from "../service/unit.ts";

/** `serve` may start without models. On reload, no models usually means that the file is being written. */
const NO_MODELS = "has no [[models]]: put them back, or stop the gateway to serve nothing";

/** Registers `tollgate serve`. */
export function addServe(program: Command): void {
  program
    .command("serve")
    .description("run the gateway")
    .option("--no-backup", "upgrade a SQLite database of an earlier version without a backup of it")
    .addOption(new Option("--as-process", "one of several serving processes").hideHelp())
    .action(async ({ backup, asProcess }: ServeOptions, command: Command) => {
      if (asProcess) return await (await import("./servingProcess.ts")).serveAsProcess();
      const signals = listenForStop();
      const log = openLogWriter();
      // Starts in a later turn, after the SIGHUP handler is set: the start can block the thread while it waits for the store.
      const starting = Promise.resolve().then(() =>
        start(command, log.write, { wantsBackup: backup, stopped: signals.first }),
      );
      process.on("SIGHUP", () => void reloadStarted(starting));
      try {
        const { gateway, warnings } = await starting;
        for (const problem of warnings) gateway.log.warn("config_warning", { problem });
        await untilStopped(gateway, signals);
      } catch (error) {
        if (!(error instanceof StoppedError)) throw error;
      } finally {
        await log.drain();
      }
    });
}

interface ServeOptions {
  readonly backup: boolean;
  readonly asProcess?: true;
}

interface Started {
  readonly gateway: RunningGateway;
  readonly warnings: readonly string[];
  /** The environment of the start. A reload uses it too. */
  readonly environment: Environment;
}

async function start(
  command: Command,
  writeLog: LogWriter["write"],
  upgrade: UpgradeChoice,
): Promise<Started> {
  checkEnvironment();
  const environment = forgetProxyEnvironment();
  const path = globalOptions(command).config;
  const { config, warnings } = loadConfig({ path, environment });
  if (config.database.engine === "postgres") forgetPostgresEnvironment();
  const gateway = await open(config, writeLog, upgrade);
  return { gateway, warnings, environment };
}

/** One writer of a file has no work for more. */
const AUTO_MAX = 8;
/** A machine or container has this much memory for each process. */
const AUTO_BYTES = 256 * 1024 * 1024;

/** How many serving processes the config means on this machine. */
function processCount({ server: { processes, listen }, database }: Config): number {
  if (processes !== "auto") return processes;
  const canShare = process.platform === "linux" && listen.kind === "tcp";
  if (!canShare || database.engine !== "sqlite") return 1;
  const most = Math.min(cores() - 1, memoryBytes() / AUTO_BYTES, AUTO_MAX);
  return Math.max(1, Math.floor(most));
}

/** The cores that this process may use. A container may have a part of them. */
function cores(): number {
  const all = availableParallelism();
  try {
    const [quota, period] = readFileSync("/sys/fs/cgroup/cpu.max", "utf8").split(" ").map(Number);
    // Without a limit the first word is "max".
    return quota && period ? Math.min(all, quota / period) : all;
  } catch {
    return all;
  }
}

async function open(
  config: Config,
  writeLog: LogWriter["write"],
  upgrade: UpgradeChoice,
): Promise<RunningGateway> {
  const count = processCount(config);
  if (count > 1) {
    const { startProcesses } = await import("./processes.ts");
    return await startProcesses(config, writeLog, upgrade, count);
  }
  const { startGateway } = await import("./gatewayServer.ts");
  return await startGateway(config, writeLog, { upgrade });
}

/** Runs until a signal or until the gateway breaks. A second signal ends delay and grace. */
export async function untilStopped(gateway: RunningGateway, signals: StopSignals): Promise<void> {
  await Promise.race([signals.first, gateway.broken]);
  await Promise.race([gateway.stop(signals.second), gateway.broken]);
}

async function reloadStarted(starting: Promise<Started>): Promise<void> {
  const started = await starting.catch(() => undefined);
  if (!started) return;
  const { gateway, environment } = started;
  reload(gateway, gateway.startedWith.file, environment);
}

/** Applies the providers, models, prices, limits and certificate of the file. An invalid file changes nothing. Never throws. */
export function reload(gateway: RunningGateway, file: string, environment?: Environment): void {
  const { log } = gateway;
  try {
    const { config, warnings } = loadConfig({ path: file, environment });
    if (config.models.length === 0) throw new ConfigError([`${file}: ${NO_MODELS}`]);
    gateway.reload(config);
    log.info("config reloaded", { count: config.models.length });
    gateway.reloaded(true);
    const late = neededRestarts(gateway.startedWith, config);
    for (const problem of [...warnings, ...late]) log.warn("config_warning", { problem });
  } catch (error) {
    gateway.reloaded(false);
    // Catches every error: a failed reload must not end the gateway.
    const reasons =
      error instanceof ConfigError
        ? error.problems.map((problem) => ({ problem }))
        : [{ error: errorClass(error) }];
    for (const reason of reasons) log.error("config_rejected", reason);
  }
}

/** One line for each changed setting that needs a restart, with what to do. */
export function neededRestarts(startedWith: Config, next: Config): readonly string[] {
  return changedAtStart(startedWith, next).map(({ key, inUnit }) => {
    const more = inUnit ? `; ${REWRITE_UNIT} before the restart` : "";
    return `${key}: changed, and takes effect only after a restart${more}`;
  });
}
