import type { Command } from "commander";
import {
  checkEnvironment,
  ConfigError,
  forgetProxyEnvironment,
  loadConfig,
  type Environment,
} from "../../config/load.ts";
import { errorClass } from "../../telemetry/log.ts";
import type { GatewayServer } from "./gatewayServer.ts";
import { openLogWriter, type LogWriter } from "./logWriter.ts";
import { globalOptions, listenForStop, type StopSignals } from "../cli/session.ts";
import type { Config } from "../../config/schema.ts";
import { REWRITE_UNIT } from "../service/unit.ts";

/** A start may wait for its models; a gateway at work that loses all of them met a file that is half written. */
const NO_MODELS = "has no [[models]]: put them back, or stop the gateway to serve nothing";

/** Registers `tollgate serve`. */
export function addServe(program: Command): void {
  program
    .command("serve")
    .description("run the gateway")
    .action(async (_: unknown, command: Command) => {
      const signals = listenForStop();
      const log = openLogWriter();
      // Behind this turn: a start that waits for its store holds the thread, and SIGHUP would kill it there.
      const starting = Promise.resolve().then(() => start(command, log.write));
      process.on("SIGHUP", () => void reloadStarted(starting));
      try {
        const { gateway, warnings } = await starting;
        for (const problem of warnings) gateway.app.gateway.log.warn("config warning", { problem });
        await untilStopped(gateway, signals);
      } finally {
        await log.drain();
      }
    });
}

interface Started {
  readonly gateway: GatewayServer;
  readonly warnings: readonly string[];
  /** As it was at the start, which is what a reload reads too. */
  readonly environment: Environment;
}

async function start(command: Command, writeLog: LogWriter["write"]): Promise<Started> {
  checkEnvironment();
  const environment = forgetProxyEnvironment();
  const path = globalOptions(command).config;
  const { config, warnings } = loadConfig({ path, environment });
  const { startGateway } = await import("./gatewayServer.ts");
  return { gateway: await startGateway(config, writeLog), warnings, environment };
}

/** Runs until a signal asks for the end, or the gateway breaks. The second signal ends the grace. */
export async function untilStopped(gateway: GatewayServer, signals: StopSignals): Promise<void> {
  await Promise.race([signals.first, gateway.broken]);
  await Promise.race([gateway.stop(signals.second), gateway.broken]);
}

async function reloadStarted(starting: Promise<Started>): Promise<void> {
  // A start that failed says so itself, and leaves nothing to reload.
  const started = await starting.catch(() => undefined);
  if (!started) return;
  const { gateway, environment } = started;
  reload(gateway, gateway.startedWith.file, environment);
}

/** Puts the file's providers, models, prices, limits and certificate in force; a bad file changes nothing. Never throws. */
export function reload(gateway: GatewayServer, file: string, environment?: Environment): void {
  const { app } = gateway;
  try {
    const { config, warnings } = loadConfig({ path: file, environment });
    if (config.models.length === 0) throw new ConfigError([`${file}: ${NO_MODELS}`]);
    app.reload(config);
    gateway.renewCertificate();
    app.gateway.log.info("config reloaded", { count: config.models.length });
    app.gateway.metrics.reloaded(true);
    const late = neededRestarts(gateway.startedWith, config);
    for (const problem of [...warnings, ...late])
      app.gateway.log.warn("config warning", { problem });
  } catch (error) {
    app.gateway.metrics.reloaded(false);
    // Whatever it is, nobody else would catch it here, and a gateway at work must not end for it.
    const reasons =
      error instanceof ConfigError
        ? error.problems.map((problem) => ({ problem }))
        : [{ error: errorClass(error) }];
    for (const reason of reasons)
      app.gateway.log.error("config rejected, the old config stays in force", reason);
  }
}

/** What a reload leaves as it is: listeners, the store and the log are opened at the start. */
const fixedSettings: Readonly<Record<string, (config: Config) => unknown>> = {
  "server.listen": ({ server }) => server.listen,
  "server.tls_cert": ({ server }) => server.tls === undefined,
  "server.shutdown_grace": ({ server }) => server.shutdownGraceMs,
  "database.path": ({ database }) => database.path,
  "database.durability": ({ database }) => database.durability,
  "log.level": ({ log }) => log.level,
  "log.format": ({ log }) => log.format,
  "metrics.listen": ({ metrics }) => metrics?.listen,
};

/** What the unit of a service was made from: what they allow or forbid stands in it. */
const unitSettings: ReadonlySet<string> = new Set([
  "server.listen",
  "server.shutdown_grace",
  "database.path",
  "metrics.listen",
]);

/** The settings of `next` that count only after a restart, each with what to do, one line each. */
export function neededRestarts(startedWith: Config, next: Config): readonly string[] {
  return Object.entries(fixedSettings)
    .filter(([, value]) => !Bun.deepEquals(value(startedWith), value(next)))
    .map(([key]) => {
      const more = unitSettings.has(key) ? `; ${REWRITE_UNIT} before the restart` : "";
      return `${key}: changed, and takes effect only after a restart${more}`;
    });
}
