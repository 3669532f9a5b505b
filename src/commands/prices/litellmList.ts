import { matchesPattern } from "../../lib/pattern.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { nearest } from "../../lib/nearest.ts";
import { CostlyJsonError, parseExactNumbers } from "../../lib/untrustedJson.ts";
import { CommandFailure } from "../cli/print.ts";
import type { SourceText } from "./source.ts";

/** The entry that describes the fields. */
const SAMPLE = "sample_spec";

/** One model of the price list. */
export interface ListEntry {
  /** The name in the list, such as `gemini/gemini-2.5-pro`. */
  readonly name: string;
  /** The list's name of the provider: `litellm_provider`. */
  readonly provider: string;
  /** The provider's own name for the model: the name in the list without the prefix `PROVIDER/`. */
  readonly model: string;
  /** The fields of the entry. Numbers are texts. */
  readonly fields: JsonFields;
}

/** What the command line selects. At least one is given. */
export interface Selection {
  /** Names, in which a `*` matches any text. */
  readonly models: readonly string[] | undefined;
  readonly provider: string | undefined;
}

/**
 * Reads a price list in the form of https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json.
 * Throws CommandFailure.
 */
export function readPriceList(source: SourceText): readonly ListEntry[] {
  const list = parsePriceList(source);
  if (!isJsonObject(list))
    throw new CommandFailure(
      `${source.name} is not a price list: it must be a JSON object with one member for each model`,
    );
  return Object.entries(list)
    .filter(([name, entry]) => name !== SAMPLE && isJsonObject(entry))
    .map(([name, entry]) => {
      const fields = fieldsOf(entry);
      const provider = textOf(fields["litellm_provider"]);
      const prefix = `${provider}/`;
      const model = provider !== "" && name.startsWith(prefix) ? name.slice(prefix.length) : name;
      return { name, provider, model, fields };
    });
}

/** The JSON of a list. Numbers are texts. Throws CommandFailure. */
export function parsePriceList({ text, name }: SourceText): unknown {
  try {
    return parseExactNumbers(text);
  } catch (cause) {
    throw new CommandFailure(`${name} ${parseProblem(cause)}`, { cause });
  }
}

function parseProblem(cause: unknown): string {
  if (cause instanceof CostlyJsonError) return `${cause.message}: it is not a price list`;
  if (cause instanceof RangeError) return "is nested too deeply: it is not a price list";
  return "is not valid JSON: download it again, as a raw file";
}

/**
 * The selected entries in the order of the list, and the patterns that match no entry. Where `provider` is given, a
 * pattern also matches a name without the provider's prefix. Throws CommandFailure if nothing is selected.
 */
export function select(
  entries: readonly ListEntry[],
  { models, provider }: Selection,
): { readonly selected: readonly ListEntry[]; readonly unmatched: readonly string[] } {
  const offered = entries.filter((entry) => provider === undefined || entry.provider === provider);
  if (offered.length === 0) throw noProvider(entries, provider);
  const namesOf = (entry: ListEntry) =>
    provider === undefined ? [entry.name] : [entry.name, entry.model];
  const isMatch = (pattern: string, entry: ListEntry) =>
    namesOf(entry).some((name) => matchesPattern(pattern, name));
  const patterns = models ?? ["*"];
  const selected = offered.filter((entry) => patterns.some((pattern) => isMatch(pattern, entry)));
  const unmatched = patterns.filter(
    (pattern) => !selected.some((entry) => isMatch(pattern, entry)),
  );
  if (selected.length > 0) return { selected, unmatched };
  const names = offered.flatMap(namesOf);
  throw new CommandFailure(
    `no model of the list matches --models ${patterns.join(",")}${advice(patterns, names)}`,
  );
}

/** A suggestion for the first name that is misspelled. */
function advice(words: readonly string[], known: readonly string[]): string {
  const meant = words.map((word) => nearest(word, known)).find((name) => name !== undefined);
  return meant === undefined
    ? ": write the names as in the list, or use * to match several"
    : `; did you mean ${meant}?`;
}

function noProvider(entries: readonly ListEntry[], provider: string | undefined): CommandFailure {
  if (provider === undefined) return new CommandFailure("the price list has no models");
  const known = [...new Set(entries.map((entry) => entry.provider))];
  const meant = nearest(provider, known);
  const suggestion = meant === undefined ? "" : `; did you mean ${meant}?`;
  return new CommandFailure(
    `no model of the list has the litellm_provider ${provider}${suggestion}`,
  );
}

/** The value, if it is a text. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
