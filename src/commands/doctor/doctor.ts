import type { Command } from "commander";
import { forgetPostgresEnvironment, forgetProxyEnvironment } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import {
  examineEnvironment,
  readConfig,
  examineProviders,
  type LoadedConfig,
} from "./configuration.ts";
import { readDatabase } from "./database.ts";
import { examineDisk, examineLimits, judgeClock } from "./host.ts";
import { examinePermissions } from "./permissions.ts";
import { examineLimitsServer, examineStandby, readServer, type ServerReading } from "./server.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { CommandFailure, printResult, type Result } from "../cli/print.ts";
import { globalOptions } from "../cli/session.ts";
import { table } from "../../lib/terminal.ts";

interface Check extends Verdict {
  readonly name: string;
}

/** Registers `tollgate doctor`. */
export function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("check clock, disk, limits, permissions, database and providers; say what to do")
    .action(async (_: unknown, command: Command) => {
      const { config, json } = globalOptions(command);
      const checks = await examine(config);
      printResult(checksResult(checks), json);
      const failedCount = checks.filter(({ ok }) => !ok).length;
      if (failedCount > 0) {
        throw new CommandFailure(`${failedCount} of ${checks.length} checks failed: see above`);
      }
    });
}

const notChecked = failed("not checked, because the config cannot be read: correct it first");

/** Runs the checks in the order of the output. The providers come last: a busy thread would count as their delay. */
async function examine(configPath: string | undefined): Promise<readonly Check[]> {
  const { loaded, verdict } = readConfig(configPath);
  const environment = examineEnvironment();
  forgetProxyEnvironment();
  const database = await examineDatabase(loaded?.config);
  const found = [
    ["config", verdict],
    ["environment", environment],
    ["clock", judgeClock(systemClock.epochMs(), database.lastEntry, database.clockProblem)],
    ["disk", loaded ? examineDiskOf(loaded.config) : notChecked],
    ["limits", examineLimits()],
    ["permissions", loaded ? examinePermissions(loaded) : notChecked],
    ["database", database.verdict],
    ["standby", await examineStandbyOf(loaded?.config)],
    ["limits server", await examineLimitsServerOf(loaded)],
    ["providers", loaded ? await examineProviders(loaded) : notChecked],
  ] as const;
  // Most configs have neither a standby nor a limits server.
  return found.flatMap(([name, one]) => (one === undefined ? [] : [{ name, ...one }]));
}

async function examineDatabase(config: Config | undefined): Promise<ServerReading> {
  if (config === undefined)
    return { verdict: notChecked, lastEntry: "unknown", clockProblem: undefined };
  const { database } = config;
  if (database.engine === "sqlite")
    return { ...(await readDatabase(database.path)), clockProblem: undefined };
  forgetPostgresEnvironment();
  return await readServer({ ...database, application: "doctor" });
}

function examineDiskOf({ database }: Config): Verdict {
  return database.engine === "sqlite"
    ? examineDisk(database.path)
    : passed("the PostgreSQL server keeps the data: watch the free space of its disk");
}

async function examineStandbyOf(config: Config | undefined): Promise<Verdict | undefined> {
  const database = config?.database;
  if (database?.engine !== "postgres" || database.reports === undefined) return undefined;
  const own = { application: "doctor" };
  return await examineStandby({ ...database.reports, ...own }, { ...database, ...own });
}

async function examineLimitsServerOf(
  loaded: LoadedConfig | undefined,
): Promise<Verdict | undefined> {
  const redis = loaded?.config.limits.redis;
  if (!redis) return undefined;
  // Its URL is read with the secrets.
  return loaded.plainSecrets === undefined
    ? failed("not checked, because the config has problems: correct them first")
    : await examineLimitsServer(redis);
}

function checksResult(checks: readonly Check[]): Result {
  const columns = [{ head: "check" }, { head: "result" }, { head: "found" }];
  return {
    document: {
      ok: checks.every(({ ok }) => ok),
      checks: checks.map(({ name, ok, lines }) => ({ name, ok, message: lines.join("; ") })),
    },
    text: () =>
      table(
        columns,
        checks.flatMap(({ name, ok, lines }) =>
          lines.map((line, at) => (at === 0 ? [name, ok ? "ok" : "failed", line] : ["", "", line])),
        ),
      ),
  };
}
