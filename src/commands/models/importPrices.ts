import type { Command } from "commander";
import { closeSync, openSync, readSync } from "node:fs";
import { basename } from "node:path";
import { ConfigError, loadConfig } from "../../config/load.ts";
import type { ProviderKind } from "../../config/schema.ts";
import { namesOfProviders, providersNamed } from "../../config/providers.ts";
import { nearest } from "../../lib/nearest.ts";
import { errorCode, fileErrorReason } from "../../lib/systemError.ts";
import { CommandFailure, printNotice, printResult, printWarning } from "../cli/print.ts";
import { globalOptions, type GlobalOptions } from "../cli/session.ts";
import { plusPercent, zero, type Decimal } from "../../lib/decimal.ts";
import {
  comment,
  importModel,
  modelTables,
  type ImportedModel,
  type Sale,
} from "./importedModel.ts";
import { readListedModel, type Skipped } from "./listedModel.ts";
import { readPriceList, select, type ListEntry } from "./priceList.ts";

/** The list has 2 MB. */
const LIST_BYTES_MAX = 64 * 1024 ** 2;
const PART_BYTES = 1024 ** 2;
const STDIN = 0;
const EMPTY_PIPE_WAIT_MS = 10;
const REASONS_MAX = 10;

/** What the command line gives. */
export interface ImportOptions {
  readonly rate: Decimal;
  readonly margin?: Decimal;
  readonly provider: string;
  readonly models?: readonly string[];
  readonly litellmProvider?: string;
}

interface SkippedModel extends Skipped {
  readonly list_name: string;
}

/** Reads the file, or the standard input, and prints the selected models. Throws CommandFailure and ConfigError. */
export function importPrices(
  given: string | undefined,
  options: ImportOptions,
  command: Command,
): void {
  const { models, litellmProvider: listProvider } = options;
  if (models === undefined && listProvider === undefined) {
    throw new CommandFailure(
      "give --models, such as 'gpt-5*', or --litellm-provider, such as openai: the whole list has thousands of models",
      { status: 2 },
    );
  }
  const global = globalOptions(command);
  const file = given === "-" ? undefined : given;
  const source = file ?? "the standard input";
  const list = readPriceList(readText(file, source), source);
  const { selected, unmatched } = select(list, { models, provider: listProvider });
  for (const name of unmatched) printWarning(`no model of the list matches ${name}`);
  const sale: Sale = {
    rate: options.rate,
    factor: plusPercent(options.margin ?? zero),
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
    { document: { models: imported, skipped }, text: () => text(imported, source) },
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
    `From ${basename(source)}. Review the prices, add them to the config, run \`tollgate check\`.`,
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

function readText(file: string | undefined, source: string): string {
  const bytes = readBytes(file, source);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new CommandFailure(`${source} is not UTF-8: it is not a price list`, { cause });
  }
}

/** Reads to the end, also from a pipe. */
function readBytes(file: string | undefined, source: string): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    const descriptor = file === undefined ? STDIN : openSync(file, "r");
    for (let part = readPart(descriptor); part.length > 0; part = readPart(descriptor)) {
      parts.push(part);
      length += part.length;
      if (length > LIST_BYTES_MAX) break;
    }
    if (file !== undefined) closeSync(descriptor);
  } catch (cause) {
    throw new CommandFailure(`${source} cannot be read: ${fileErrorReason(cause)}`, { cause });
  }
  if (length <= LIST_BYTES_MAX) return Buffer.concat(parts);
  throw new CommandFailure(`${source} is larger than 64 MB: it is not a price list`);
}

/** Empty at the end. Waits if the standard input does not block and has nothing yet. */
function readPart(descriptor: number): Uint8Array {
  const part = new Uint8Array(PART_BYTES);
  for (;;) {
    try {
      return part.subarray(0, readSync(descriptor, part));
    } catch (error) {
      if (errorCode(error) !== "EAGAIN") throw error;
      Bun.sleepSync(EMPTY_PIPE_WAIT_MS);
    }
  }
}
