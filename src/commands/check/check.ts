import type { Command } from "commander";
import {
  checkEnvironment,
  ConfigError,
  forgetPostgresEnvironment,
  forgetProxyEnvironment,
  loadConfig,
} from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { configReport } from "../../contract/operator/configReport.ts";
import { CommandFailure, printResult, printWarning } from "../cli/print.ts";
import { globalOptions, type GlobalOptions } from "../cli/session.ts";
import { sizeOf } from "../doctor/configuration.ts";
import { examineLimitsServer, readServer } from "../doctor/server.ts";
import type { Verdict } from "../doctor/verdict.ts";
import { visible } from "../../lib/terminal.ts";

/** Registers `tollgate check`. */
export function addCheck(program: Command): void {
  program
    .command("check")
    .description("validate the config")
    .option(
      "--live",
      "also send a small request to each route, for which the providers charge, ask the database server and the limits server, and send a test notice",
    )
    .action(async (options: { live?: true }, command: Command) => {
      const global = globalOptions(command);
      const { config, warnings } = load(global);
      if (options.live) await checkLive(config, warnings, global);
      else printValid(config, warnings, global);
    });
}

/** Throws ConfigError for an invalid config. With --json the problems are printed as the document too. */
function load({ config: path, json }: GlobalOptions): ReturnType<typeof loadConfig> {
  try {
    const loaded = loadConfig({ path });
    if (!json) loaded.warnings.forEach(printWarning);
    return loaded;
  } catch (error) {
    if (error instanceof ConfigError && json) {
      const document = configReport({ problems: error.problems });
      printResult({ document, text: () => "" }, true);
    }
    throw error;
  }
}

function printValid(config: Config, warnings: readonly string[], { json }: GlobalOptions): void {
  const document = configReport({ file: config.file, warnings });
  printResult({ document, text: () => validText(config) }, json);
}

/** Prints the result of each route, of the limits server and of the test notices. Throws CommandFailure if one failed. */
async function checkLive(
  config: Config,
  warnings: readonly string[],
  { json }: GlobalOptions,
): Promise<void> {
  checkEnvironment();
  forgetProxyEnvironment();
  const { redis } = config.limits;
  const limitsServer = redis && (await examineLimitsServer(redis));
  const database = await examineDatabase(config);
  const { askRoutes, liveText } = await import("./liveCheck.ts");
  const { sendTestNotices, noticesText } = await import("./noticeCheck.ts");
  const [live, notices] = await Promise.all([askRoutes(config), sendTestNotices(config.notify)]);
  const failures = [
    ...failuresOf(live, "routes"),
    ...(limitsServer?.ok === false ? ["the limits server failed"] : []),
    ...(database?.ok === false ? ["the database failed"] : []),
    ...failuresOf(notices, "test notices"),
  ];
  const document = {
    ok: failures.length === 0,
    file: config.file,
    problems: [],
    warnings,
    live,
    ...(limitsServer && {
      limits_server: { ok: limitsServer.ok, message: limitsServer.lines.join("; ") },
    }),
    ...(database && { database: { ok: database.ok, message: database.lines.join("; ") } }),
    ...(notices.length > 0 && { notices }),
  };
  const text = () =>
    [
      validText(config),
      ...(limitsServer ? [visible(`limits server: ${limitsServer.lines.join("; ")}`)] : []),
      ...(database ? [visible(`database: ${database.lines.join("; ")}`)] : []),
      ...(live.length > 0 ? ["", liveText(live)] : []),
      ...(notices.length > 0 ? ["", noticesText(notices)] : []),
    ].join("\n");
  printResult({ document, text }, json);
  if (failures.length > 0) throw new CommandFailure(`${failures.join(", ")}: see above`);
}

/** Undefined for a SQLite file: `doctor` checks it. */
async function examineDatabase({ database }: Config): Promise<Verdict | undefined> {
  if (database.engine === "sqlite") return undefined;
  forgetPostgresEnvironment();
  return (await readServer(database)).verdict;
}

/** `2 of 3 routes failed`, if one failed. */
function failuresOf(results: readonly { readonly ok: boolean }[], what: string): readonly string[] {
  const failed = results.filter(({ ok }) => !ok).length;
  return failed > 0 ? [`${failed} of ${results.length} ${what} failed`] : [];
}

function validText(config: Config): string {
  return visible(`${config.file} is valid (${sizeOf(config)})`);
}
