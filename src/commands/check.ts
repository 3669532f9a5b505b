import type { Command } from "commander";
import { ConfigError, loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { printResult, printWarning, visible } from "./print.ts";
import { globalOptions } from "./session.ts";

/** Registers `tollgate check`. */
export function addCheck(program: Command): void {
  program
    .command("check")
    .description("validate the config")
    .action((_: unknown, command: Command) => check(command));
}

/** The problems leave as the error that they are; with --json also as the document. */
function check(command: Command): void {
  const { config: path, json } = globalOptions(command);
  try {
    const { config, warnings } = loadConfig({ path });
    if (!json) warnings.forEach(printWarning);
    const document = { ok: true, file: config.file, problems: [], warnings };
    printResult({ document, text: () => sound(config) }, json === true);
  } catch (error) {
    if (error instanceof ConfigError && json) {
      const document = { ok: false, problems: error.problems, warnings: [] };
      printResult({ document, text: () => "" }, true);
    }
    throw error;
  }
}

function sound({ file, providers, models }: Config): string {
  return visible(`${file} is valid (providers: ${providers.length}, models: ${models.length})`);
}
