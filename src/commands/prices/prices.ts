import { type Command, InvalidArgumentError } from "commander";
import { momentOf } from "../../config/schedules.ts";
import { systemClock } from "../../lib/clock.ts";
import { parseDecimal, type Decimal } from "../../lib/decimal.ts";
import { patterns } from "../models/models.ts";
import { globalOptions } from "../cli/session.ts";
import type { SyncOptions } from "./proposal.ts";

/** Registers `tollgate prices sync`. */
export function addPrices(program: Command): void {
  program
    .command("prices")
    .description("compare the prices of the config with the vendors', and write them")
    .command("sync")
    .summary("write the vendors' prices into the file that [pricing] names")
    .description(
      "Compares the prices of the config with LiteLLM's price list, shows what differs, asks, and writes the file that [pricing] file names. The status is 3 where some models were refused.",
    )
    .argument(
      "[file]",
      "model_prices_and_context_window.json, its https address, or - for the standard input, which is the default",
    )
    .option(
      "--second <file>",
      "data.json of genai-prices, or its address: a model on which both lists disagree is refused",
    )
    .option("--models <names>", "only these models of the config, such as gpt-5*,o3", patterns)
    .option(
      "--allow <names>",
      "models that may change by any amount, and on which lists may disagree",
      patterns,
    )
    .option(
      "--max-change <percent>",
      "a model of which a price rises or falls by more is refused; default: 50",
      percent,
    )
    .option(
      "--from <date>",
      "when the prices come into force, such as 2026-12-01; default: now",
      moment,
    )
    .option("--output <file>", "write this file instead of the one of the config")
    .option(
      "--vendor <provider=name>",
      "the litellm_provider of a provider of the config whose address does not tell it; may be repeated",
      vendor,
    )
    .option("--yes", "write without a question")
    .action(async (source: string | undefined, options: SyncOptions, command: Command) => {
      const { syncPrices } = await import("./sync.ts");
      await syncPrices(source, options, globalOptions(command));
    });
}

function percent(text: string): Decimal {
  const decimal = /^\d{1,6}(?:\.\d{1,6})?$/.test(text) ? parseDecimal(text) : undefined;
  if (decimal !== undefined) return decimal;
  throw new InvalidArgumentError("Write a percentage from 0, such as 50 or 12.5.");
}

function moment(text: string): NonNullable<SyncOptions["from"]> {
  const ms = momentOf(text);
  if (ms === undefined)
    throw new InvalidArgumentError(
      "Write a date such as 2026-12-01 (midnight in UTC), or a time with its offset such as 2026-12-01T00:00:00+03:00.",
    );
  if (ms <= systemClock.epochMs())
    throw new InvalidArgumentError("It has passed: without --from prices come into force at once.");
  return { text, ms };
}

function vendor(
  text: string,
  before: ReadonlyMap<string, string> = new Map(),
): ReadonlyMap<string, string> {
  const [, provider, name] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (provider === undefined || name === undefined)
    throw new InvalidArgumentError("Write it as PROVIDER=NAME, such as proxy=openai.");
  return new Map([...before, [provider, name]]);
}
