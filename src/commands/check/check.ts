import type { Command } from "commander";
import {
  checkEnvironment,
  ConfigError,
  forgetProxyEnvironment,
  loadConfig,
} from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { configReport } from "../../contract/operator/configReport.ts";
import { CommandFailure, printResult, printWarning, visible } from "../cli/print.ts";
import { globalOptions, type GlobalOptions } from "../cli/session.ts";
import { examineLimitsServer } from "../doctor/limitsServer.ts";

/** Registers `tollgate check`. */
export function addCheck(program: Command): void {
  program
    .command("check")
    .description("validate the config")
    .option(
      "--live",
      "also send a small request to each route, for which the providers charge, and ask the limits server",
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

/** Prints the result of each route, and of the limits server. Throws CommandFailure if one failed. */
async function checkLive(
  config: Config,
  warnings: readonly string[],
  { json }: GlobalOptions,
): Promise<void> {
  checkEnvironment();
  forgetProxyEnvironment();
  const { redis } = config.limits;
  const limitsServer = redis && (await examineLimitsServer(redis));
  const { askRoutes, liveText } = await import("./liveCheck.ts");
  const live = await askRoutes(config);
  const failed = live.filter(({ ok }) => !ok).length;
  const document = {
    ok: failed === 0 && limitsServer?.ok !== false,
    file: config.file,
    problems: [],
    warnings,
    live,
    ...(limitsServer && {
      limits_server: { ok: limitsServer.ok, message: limitsServer.lines.join("; ") },
    }),
  };
  const text = () =>
    [
      validText(config),
      ...(limitsServer ? [visible(`limits server: ${limitsServer.lines.join("; ")}`)] : []),
      ...(live.length > 0 ? ["", liveText(live)] : []),
    ].join("\n");
  printResult({ document, text }, json);
  const failures = [
    ...(failed > 0 ? [`${failed} of ${live.length} routes failed`] : []),
    ...(limitsServer?.ok === false ? ["the limits server failed"] : []),
  ];
  if (failures.length > 0) throw new CommandFailure(`${failures.join(", ")}: see above`);
}

function validText({ file, providers, models }: Config): string {
  return visible(`${file} is valid (providers: ${providers.length}, models: ${models.length})`);
}
