import type { Command } from "commander";
import { ConfigError, loadConfig } from "../../config/load.ts";
import type { ProviderKind } from "../../config/schema.ts";
import { namesOfProviders, providersNamed } from "../../config/providers.ts";
import { nearest } from "../../lib/nearest.ts";
import { CommandFailure, printNotice, printResult, printWarning } from "../cli/print.ts";
import { globalOptions, type GlobalOptions } from "../cli/session.ts";
import type { Decimal } from "../../lib/decimal.ts";
import {
  comment,
  importModel,
  modelDocument,
  modelTables,
  type ImportedModel,
  type Sale,
} from "./importedModel.ts";
import { readListedModel, type Skipped } from "../prices/listedModel.ts";
import { readPriceList, select, type ListEntry } from "../prices/litellmList.ts";
import { readSource } from "../prices/source.ts";

const REASONS_MAX = 10;

/** What the command line gives. */
export interface ImportOptions {
  readonly rate?: Decimal;
  readonly margin?: Decimal;
  readonly provider: string;
  readonly models?: readonly string[];
  readonly litellmProvider?: string;
}

interface SkippedModel extends Skipped {
  readonly list_name: string;
}

/** Reads the list and prints the selected models. Rejects with CommandFailure and ConfigError. */
export async function importPrices(
  given: string | undefined,
  options: ImportOptions,
  command: Command,
): Promise<void> {
  const { models, litellmProvider: listProvider } = options;
  if (models === undefined && listProvider === undefined) {
    throw new CommandFailure(
      "give --models, such as 'gpt-5*', or --litellm-provider, such as openai: the whole list has thousands of models",
      { status: 2 },
    );
  }
  const global = globalOptions(command);
  const source = await readSource(given);
  const list = readPriceList(source);
  const { selected, unmatched } = select(list, { models, provider: listProvider });
  for (const name of unmatched) printWarning(`no model of the list matches ${name}`);
  const sale: Sale = {
    rate: options.rate,
    margin: options.margin,
    provider: options.provider,
    kind: kindOf(options.provider, global),
  };
  const { imported, skipped } = importAll(selected, sale);
  if (imported.length === 0) {
    throw new CommandFailure(`none of the selected models can be imported: ${reasons(skipped)}`);
  }
  if (skipped.length > 0 && !global.json) {
    printNotice(`skipped ${skipped.length} of ${selected.length} models: ${reasons(skipped)}`);
  }
  printResult(
    {
      document: { models: imported.map(modelDocument), skipped },
      text: () => text(imported, source.name),
    },
    global.json,
  );
}

function importAll(
  entries: readonly ListEntry[],
  sale: Sale,
): { readonly imported: readonly ImportedModel[]; readonly skipped: readonly SkippedModel[] } {
  const imported = new Map<string, ImportedModel>();
  const skipped: SkippedModel[] = [];
  for (const entry of entries) {
    const listed = readListedModel(entry);
    const result = "reason" in listed ? listed : importModel(listed, sale);
    if ("reason" in result) skipped.push({ list_name: entry.name, ...result });
    else if (!imported.has(result.id)) imported.set(result.id, result);
    else skipped.push({ list_name: entry.name, reason: "an earlier model has the same id" });
  }
  return { imported: [...imported.values()], skipped };
}

/** The reasons with their counts, the most frequent first. */
function reasons(skipped: readonly SkippedModel[]): string {
  const counts = new Map<string, number>();
  for (const { reason } of skipped) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const ordered = [...counts].toSorted(([, one], [, other]) => other - one);
  const shown = ordered.slice(0, REASONS_MAX).map(([reason, count]) => `${count} (${reason})`);
  return [...shown, ...(ordered.length > REASONS_MAX ? ["..."] : [])].join(", ");
}

function text(models: readonly ImportedModel[], source: string): string {
  const head = comment(
    `From ${source}. Review the prices, add them to the config, run \`tollgate check\`.`,
  );
  return [head, ...models.map(modelTables)].join("\n\n");
}

/**
 * The kind of the provider in the config. Without a config it is unknown. Throws CommandFailure if the config has no such
 * provider, and ConfigError if the config that the command line names cannot be used.
 */
function kindOf(id: string, { config: path }: GlobalOptions): ProviderKind | undefined {
  try {
    const { providers } = loadConfig({ path, secrets: "unread" }).config;
    const [provider] = providersNamed(providers, id);
    if (provider !== undefined) return provider.kind;
    const meant = nearest(id, namesOfProviders(providers));
    const advice = meant === undefined ? "add it under [[providers]]" : `did you mean ${meant}?`;
    throw new CommandFailure(`no provider of the config has the id ${id}; ${advice}`);
  } catch (error) {
    if (!(error instanceof ConfigError) || path !== undefined) throw error;
    printWarning(`the provider ${id} is not checked: ${error.problems[0]}`);
    return undefined;
  }
}
