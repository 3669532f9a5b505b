import type { Command } from "commander";
import { forgetProxyEnvironment } from "../../config/load.ts";
import { systemClock } from "../../lib/clock.ts";
import { examineEnvironment, readConfig, examineProviders } from "./configuration.ts";
import { readDatabase } from "./database.ts";
import { examineDisk, examineLimits, judgeClock } from "./host.ts";
import { examinePermissions } from "./permissions.ts";
import { failed, notLooked, type Verdict } from "./verdict.ts";
import { CommandFailure, printResult, type Result } from "../cli/print.ts";
import { globalOptions } from "../cli/session.ts";
import { table } from "../cli/format.ts";

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
      printResult(examined(checks), json);
      const failedCount = checks.filter(({ ok }) => !ok).length;
      if (failedCount > 0) {
        throw new CommandFailure(`${failedCount} of ${checks.length} checks failed: see above`);
      }
    });
}

/** The checks in the order in which they are shown. The providers come last: what keeps this thread would count as their delay. */
async function examine(configPath: string | undefined): Promise<readonly Check[]> {
  const { known, verdict } = readConfig(configPath);
  const environment = { name: "environment", ...examineEnvironment() };
  forgetProxyEnvironment();
  const path = known?.config.database.path;
  const database =
    path === undefined
      ? { verdict: failed(notLooked), lastEntry: "unknown" as const }
      : readDatabase(path);
  return [
    { name: "config", ...verdict },
    environment,
    { name: "clock", ...judgeClock(systemClock.epochMs(), database.lastEntry) },
    { name: "disk", ...(path === undefined ? failed(notLooked) : examineDisk(path)) },
    { name: "limits", ...examineLimits() },
    {
      name: "permissions",
      ...(known === undefined ? failed(notLooked) : examinePermissions(known)),
    },
    { name: "database", ...database.verdict },
    {
      name: "providers",
      ...(known === undefined ? failed(notLooked) : await examineProviders(known)),
    },
  ];
}

function examined(checks: readonly Check[]): Result {
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
