import { InvalidArgumentError, type Command } from "commander";
import { isatty } from "node:tty";
import { InvalidValue, modelPatterns } from "../../administration/values.ts";
import { CommandFailure } from "../cli/print.ts";
import { parseDecimal, type Decimal } from "./decimal.ts";
import type { ImportOptions } from "./importPrices.ts";

const STDIN = 0;

/** Adds `import` to `tollgate models`. */
export function addImport(models: Command): void {
  models
    .command("import")
    .description("print [[models]] for the config from LiteLLM's price list; it changes nothing")
    .argument("[file]", "model_prices_and_context_window.json; default: -, the standard input")
    .requiredOption("--rate <roubles>", "roubles for one unit of the list's currency", rate)
    .requiredOption("--provider <id>", "the provider of the config that serves the models")
    .option("--margin <percent>", "added to the cost; default: 0", margin)
    .option("--models <names>", "names as in the list, such as gpt-5*,o3", patterns)
    .option("--litellm-provider <name>", "only models of this litellm_provider, such as openai")
    .action(async (file: string | undefined, options: ImportOptions, command: Command) => {
      if (file === undefined && isatty(STDIN)) {
        throw new CommandFailure("give the file of the price list, or - to type it", { status: 2 });
      }
      const { importPrices } = await import("./importPrices.ts");
      importPrices(file, options, command);
    });
}

function patterns(text: string): readonly string[] {
  try {
    return modelPatterns(text);
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error;
    throw new InvalidArgumentError(error.message);
  }
}

/** More than 0. */
function rate(text: string): Decimal {
  const decimal = plainDecimal(text);
  if (decimal !== undefined && decimal.digits > 0n) return decimal;
  throw new InvalidArgumentError("Write a plain decimal above 0, such as 92.4517.");
}

/** 0 or more. */
function margin(text: string): Decimal {
  const decimal = plainDecimal(text);
  if (decimal !== undefined) return decimal;
  throw new InvalidArgumentError("Write a percentage from 0, such as 20 or 12.5.");
}

function plainDecimal(text: string): Decimal | undefined {
  return /^\d{1,9}(?:\.\d{1,9})?$/.test(text) ? parseDecimal(text) : undefined;
}
