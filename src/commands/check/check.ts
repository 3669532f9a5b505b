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

/** Registers `tollgate check`. */
export function addCheck(program: Command): void {
  program
    .command("check")
    .description("validate the config")
    .option("--live", "also send a small request to each route; the providers charge for it")
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

/** Prints the result of each route. Throws CommandFailure if one failed. */
async function checkLive(
  config: Config,
  warnings: readonly string[],
  { json }: GlobalOptions,
): Promise<void> {
  checkEnvironment();
  forgetProxyEnvironment();
  const { askRoutes, liveText } = await import("./liveCheck.ts");
  const live = await askRoutes(config);
  const failed = live.filter(({ ok }) => !ok).length;
  const document = { ok: failed === 0, file: config.file, problems: [], warnings, live };
  const text = () =>
    [validText(config), ...(live.length > 0 ? ["", liveText(live)] : [])].join("\n");
  printResult({ document, text }, json);
  if (failed > 0) {
    throw new CommandFailure(`${failed} of ${live.length} routes failed: see above`);
  }
}

function validText({ file, providers, models }: Config): string {
  return visible(`${file} is valid (providers: ${providers.length}, models: ${models.length})`);
}
