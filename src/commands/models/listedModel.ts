import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { highest, parseDecimal, zero, type Decimal } from "../../lib/decimal.ts";
import { textOf, type ListEntry } from "./priceList.ts";

/** What a model costs, in the currency of the list: for one token, and for one search. */
export interface ListedCosts {
  readonly input: Decimal;
  /** Undefined for an embedding model. */
  readonly output?: Decimal | undefined;
  readonly cachedInput?: Decimal | undefined;
  readonly cacheWrite?: Decimal | undefined;
  readonly cacheWrite1h?: Decimal | undefined;
  readonly webSearch?: Decimal | undefined;
}

/** A model of the list that the config can express. */
export interface ListedModel {
  readonly entry: ListEntry;
  readonly kind: "chat" | "embedding";
  /** `only`: the provider serves no /v1/chat/completions for it. */
  readonly responses: "no" | "yes" | "only";
  /** The highest costs of all lengths of a prompt. */
  readonly costs: ListedCosts;
  /** The costs of a short prompt, if they are lower. */
  readonly shortPromptCosts: ListedCosts | undefined;
  /** Undefined if the list has no usable number. */
  readonly maxOutputTokens: number | undefined;
  readonly maxInputTokens: number | undefined;
  /** Notes for the operator, of one sentence or two. */
  readonly notes: readonly string[];
}

/** Why a model of the list is not printed. */
export interface Skipped {
  readonly reason: string;
}

type CostName = "input" | "output" | "reasoning" | "cachedInput" | "cacheWrite" | "cacheWrite1h";

const COST_FIELDS: ReadonlyMap<string, CostName> = new Map([
  ["input_cost_per_token", "input"],
  ["output_cost_per_token", "output"],
  ["output_cost_per_reasoning_token", "reasoning"],
  ["cache_read_input_token_cost", "cachedInput"],
  ["input_cost_per_token_cache_hit", "cachedInput"],
  ["cache_creation_input_token_cost", "cacheWrite"],
  ["cache_creation_input_token_cost_above_1hr", "cacheWrite1h"],
]);
/** `input_cost_per_token_above_200k_tokens` is the price of a long prompt. */
const FIELD_NAME = /^(.+?)(_above_\d+k_tokens)?$/;
/** Prices of service tiers. The gateway refuses requests for them. */
const SERVICE_TIER = /_(?:batches|batch_requests|flex|priority)$/;
const COST_NAME = /cost|pric|^provider_specific_entry$/;
const LEFT_OUT_MAX = 10;

/** Reads one entry. */
export function readListedModel(entry: ListEntry): ListedModel | Skipped {
  const { fields } = entry;
  const mode = textOf(fields["mode"]);
  if (mode !== "chat" && mode !== "responses" && mode !== "embedding") {
    return { reason: mode === "" ? "no mode" : `mode ${mode}` };
  }
  const reader = new CostReader(fields);
  if (reader.unusable !== undefined) return { reason: `unusable value of ${reader.unusable}` };
  const kind = mode === "embedding" ? mode : "chat";
  const costs = reader.costs("long", kind);
  if (costs === undefined) return { reason: "no price for each token" };
  if (isFree(costs) && reader.leftOut.length > 0) {
    return { reason: "prices for other units than tokens" };
  }
  const endpoints = fields["supported_endpoints"];
  const hasResponses = Array.isArray(endpoints) && endpoints.includes("/v1/responses");
  return {
    entry,
    kind,
    responses: mode === "responses" ? "only" : hasResponses ? "yes" : "no",
    costs,
    shortPromptCosts: reader.hasLongPrompts ? reader.costs("short", kind) : undefined,
    maxOutputTokens: tokenCount(fields["max_output_tokens"]),
    maxInputTokens: tokenCount(fields["max_input_tokens"]),
    notes: [...reader.notes(), ...endNotes(fields)],
  };
}

function isFree({ input, output }: ListedCosts): boolean {
  return input.digits === 0n && (output === undefined || output.digits === 0n);
}

function endNotes(fields: JsonFields): readonly string[] {
  const date = textOf(fields["deprecation_date"]);
  return /^\d{4}-\d{2}-\d{2}$/.test(date)
    ? [`The list says that the provider ends this model on ${date}.`]
    : [];
}

/** A whole number of tokens from 1. */
function tokenCount(value: unknown): number | undefined {
  const count = /^\d{1,9}(?:\.0+)?$/.test(textOf(value)) ? Number(value) : 0;
  return count > 0 ? count : undefined;
}

/** The costs of one entry. */
class CostReader {
  /** The first field with a price that is no usable number. */
  unusable: string | undefined;
  /** The fields with prices that the config cannot express. */
  readonly leftOut: string[] = [];
  /** Some prices apply to long prompts only. */
  hasLongPrompts = false;
  readonly #short = new Map<CostName, Decimal>();
  readonly #long = new Map<CostName, Decimal>();
  #webSearch: Decimal | undefined;

  constructor(fields: JsonFields) {
    for (const [field, value] of Object.entries(fields)) this.#read(field, value);
  }

  #read(field: string, value: unknown): void {
    if (value === null || SERVICE_TIER.test(field)) return;
    const [, base = "", tier] = FIELD_NAME.exec(field) ?? [];
    const name = COST_FIELDS.get(base);
    if (name !== undefined) this.#add(field, name, value, tier !== undefined);
    else if (field === "tiered_pricing") this.#readTiers(value);
    else if (field === "search_context_cost_per_query") this.#readSearch(field, value);
    else if (COST_NAME.test(field) && isCost(value)) this.leftOut.push(field);
  }

  #add(field: string, name: CostName, value: unknown, isLong: boolean): void {
    const cost = parseDecimal(textOf(value));
    if (cost === undefined) {
      this.unusable ??= field;
      return;
    }
    if (isLong) this.hasLongPrompts = true;
    else raise(this.#short, name, cost);
    raise(this.#long, name, cost);
  }

  /** A list of prices by the length of the prompt, the shortest first. */
  #readTiers(value: unknown): void {
    const tiers: readonly unknown[] = Array.isArray(value) ? value : [];
    for (const [index, tier] of tiers.entries()) {
      for (const [field, cost] of Object.entries(fieldsOf(tier))) {
        const name = COST_FIELDS.get(field);
        if (name !== undefined && cost !== null) this.#add(field, name, cost, index > 0);
        else if (COST_NAME.test(field) && isCost(cost)) this.leftOut.push(field);
      }
    }
  }

  /** The price of one search depends on how much of the pages the model reads. */
  #readSearch(field: string, value: unknown): void {
    for (const one of Object.values(fieldsOf(value))) {
      if (one === null) continue;
      const cost = parseDecimal(textOf(one));
      if (cost === undefined) this.unusable ??= field;
      else this.#webSearch = highest(this.#webSearch ?? cost, cost);
    }
  }

  /** Undefined if input or output has no price. */
  costs(prompts: "short" | "long", kind: "chat" | "embedding"): ListedCosts | undefined {
    const costs = prompts === "long" ? this.#long : this.#short;
    const input = costs.get("input");
    if (input === undefined) return undefined;
    if (kind === "embedding") return { input };
    const output = costs.get("output");
    if (output === undefined) return undefined;
    const cacheWrite = positive(costs.get("cacheWrite"));
    const cacheWrite1h = positive(costs.get("cacheWrite1h"));
    return {
      input,
      output: highest(output, costs.get("reasoning") ?? zero),
      cachedInput: positive(costs.get("cachedInput")),
      cacheWrite,
      cacheWrite1h: cacheWrite1h && highest(cacheWrite1h, cacheWrite ?? zero),
      webSearch: positive(this.#webSearch),
    };
  }

  notes(): readonly string[] {
    const notes: string[] = [];
    if (isBelow(this.#long.get("output"), this.#long.get("reasoning"))) {
      notes.push("Reasoning costs more than other output. Its price is used for all output.");
    }
    if (isBelow(positive(this.#long.get("cacheWrite1h")), this.#long.get("cacheWrite"))) {
      notes.push(
        "In the list a cache write for 1 hour costs less than one for 5 minutes. The higher price is used for both.",
      );
    }
    if (this.leftOut.length > 0) {
      const names = [...new Set(this.leftOut)];
      const more = names.length > LEFT_OUT_MAX ? ` and ${names.length - LEFT_OUT_MAX} more` : "";
      notes.push(
        `Not in these prices, because the config cannot express it: ${names.slice(0, LEFT_OUT_MAX).join(", ")}${more}.`,
      );
    }
    return notes;
  }
}

function raise(costs: Map<CostName, Decimal>, name: CostName, cost: Decimal): void {
  costs.set(name, highest(costs.get(name) ?? cost, cost));
}

/** A cache price of 0 means that the provider has none. */
function positive(cost: Decimal | undefined): Decimal | undefined {
  return cost === undefined || cost.digits === 0n ? undefined : cost;
}

function isBelow(one: Decimal | undefined, other: Decimal | undefined): boolean {
  return one !== undefined && other !== undefined && highest(one, other) !== one;
}

/** Whether a value is a number above 0, or a list or a table of prices. */
function isCost(value: unknown): boolean {
  if (isJsonObject(value) || Array.isArray(value)) return Object.keys(value).length > 0;
  const cost = parseDecimal(textOf(value));
  return cost !== undefined && cost.digits > 0n;
}
