import type {
  DollarList,
  DollarPrices,
  DollarTier,
  DollarTiers,
} from "../../config/dollarPrices.ts";
import { figureDocs } from "../../contract/answerFields.ts";
import { byPrice, type Figure, type PriceName } from "../../contract/figures.ts";
import { serviceTiers, type ServiceTier } from "../../contract/priceList.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  compare,
  highest,
  multiply,
  parseDecimal,
  ratioUp,
  roundUpDigits,
  shift,
  zero,
  type Decimal,
} from "../../lib/decimal.ts";
import { listFigures } from "./listFigures.ts";
import { textOf, type ListEntry } from "./litellmList.ts";

/** A model of the list that the config can express. */
export interface ListedModel {
  readonly entry: ListEntry;
  readonly kind: "chat" | "embedding";
  /** `only`: the provider serves no /v1/chat/completions for it. */
  readonly responses: "no" | "yes" | "only";
  readonly prices: DollarList;
  /** Undefined if the list has no usable number. */
  readonly maxOutputTokens: number | undefined;
  readonly maxInputTokens: number | undefined;
  /** Notes for the operator, of one sentence or two. */
  readonly notes: readonly string[];
}

/** Why a model of the list cannot be used. */
export interface Skipped {
  readonly reason: string;
}

/** What costs something in the list. Reasoning is part of the output. */
type CostName = PriceName | "reasoning";

const COST_FIELDS: ReadonlyMap<string, CostName> = new Map([
  ["output_cost_per_reasoning_token", "reasoning"],
  ...byPrice.flatMap(({ price: { name } }) =>
    (listFigures[name]?.litellm ?? []).map((field) => [field, name] as const),
  ),
]);
/** `input_cost_per_token_above_200k_tokens_priority` is the price of a long prompt in the service tier priority. */
const FIELD_NAME =
  /^(.+?)(?:_above_(\d{1,5})k_tokens)?(?:_(flex|priority|batches|batch_requests))?$/;
const COST_NAME = /cost|pric/;
const LEFT_OUT_MAX = 10;

/** Reads one entry. */
export function readListedModel(entry: ListEntry): ListedModel | Skipped {
  const { fields } = entry;
  const mode = textOf(fields["mode"]);
  if (mode !== "chat" && mode !== "responses" && mode !== "embedding") {
    return { reason: mode === "" ? "no mode" : `mode ${mode}` };
  }
  const kind = mode === "embedding" ? mode : "chat";
  const reader = new CostReader(fields, kind);
  if (reader.unusable !== undefined) return { reason: `unusable value of ${reader.unusable}` };
  const prices = reader.list();
  if (prices === undefined) return { reason: "no price for each token" };
  if (isFree(prices.base) && reader.leftOut.length > 0) {
    return { reason: "prices for other units than tokens" };
  }
  const endpoints = fields["supported_endpoints"];
  const hasResponses = Array.isArray(endpoints) && endpoints.includes("/v1/responses");
  return {
    entry,
    kind,
    responses: mode === "responses" ? "only" : hasResponses ? "yes" : "no",
    prices,
    maxOutputTokens: tokenCount(fields["max_output_tokens"]),
    maxInputTokens: tokenCount(fields["max_input_tokens"]),
    notes: [...reader.notes(), ...endNotes(fields)],
  };
}

function isFree({ input, output }: DollarPrices): boolean {
  return (input?.digits ?? 0n) === 0n && (output?.digits ?? 0n) === 0n;
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

/** The costs of prompts with more tokens than `above`. */
interface Costs {
  readonly above: number;
  readonly costs: Map<CostName, Decimal>;
  /** The fields that they come from. */
  readonly fields: Map<CostName, string>;
}

/** The costs of one entry. */
class CostReader {
  /** The first field with a price that is no usable number. */
  unusable: string | undefined;
  /** The fields with prices that the config cannot express. */
  readonly leftOut: string[] = [];
  readonly #kind: "chat" | "embedding";
  /** How many times the price a fast answer costs. */
  #fast: Decimal | undefined;
  readonly #notes = new Set<string>();
  /** By the service tier; undefined: the standard one. */
  readonly #places = new Map<ServiceTier | undefined, Costs[]>();

  constructor(fields: JsonFields, kind: "chat" | "embedding") {
    this.#kind = kind;
    for (const [field, value] of Object.entries(fields)) this.#read(field, value);
  }

  #read(field: string, value: unknown): void {
    if (value === null) return;
    const [, base = "", above = "0", suffix] = FIELD_NAME.exec(field) ?? [];
    const name = COST_FIELDS.get(base);
    const service = serviceNamed(suffix);
    if (name !== undefined) this.#add({ field, service, above: Number(above) * 1000 }, name, value);
    else if (field === "tiered_pricing") this.#readTiers(value);
    else if (field === "provider_specific_entry") this.#readFactors(field, value);
    else if (COST_NAME.test(field) && service === undefined && isCost(value))
      this.leftOut.push(field);
  }

  #add(place: Place, name: CostName, value: unknown): void {
    // Of a table of prices the highest counts.
    const values = isJsonObject(value) ? Object.values(value) : [value];
    for (const one of values) {
      if (one === null) continue;
      const cost = parseDecimal(textOf(one));
      if (cost === undefined) this.unusable ??= place.field;
      else this.#raise(place, name, cost);
    }
  }

  #raise({ field, service, above }: Place, name: CostName, cost: Decimal): void {
    const places = this.#places.get(service) ?? [];
    this.#places.set(service, places);
    let found = places.find((one) => one.above === above);
    if (found === undefined) {
      found = { above, costs: new Map(), fields: new Map() };
      places.push(found);
      places.sort((one, other) => one.above - other.above);
    }
    found.costs.set(name, highest(found.costs.get(name) ?? cost, cost));
    found.fields.set(name, field);
  }

  /** The prices of tokens times a number, for a fast answer or a place. */
  #readFactors(field: string, value: unknown): void {
    const { fast, ...places } = fieldsOf(value);
    if (isCost(fast)) this.#fast = parseDecimal(textOf(fast));
    if (Object.values(places).some(isCost)) this.leftOut.push(field);
  }

  /** A list of prices by the length of the prompt. */
  #readTiers(value: unknown): void {
    const tiers: readonly unknown[] = Array.isArray(value) ? value : [];
    for (const [index, tier] of tiers.entries()) {
      const above = index === 0 ? 0 : lowerEnd(tier);
      if (above === undefined) this.unusable ??= "tiered_pricing";
      for (const [field, cost] of Object.entries(fieldsOf(tier))) {
        const name = COST_FIELDS.get(field);
        if (name !== undefined && cost !== null)
          this.#add({ field, service: undefined, above: above ?? 0 }, name, cost);
        else if (COST_NAME.test(field) && isCost(cost)) this.leftOut.push(field);
      }
    }
  }

  /** Undefined if input or output has no price. */
  list(): DollarList | undefined {
    const standard = this.#tiers(undefined);
    if (standard === undefined) return undefined;
    if (this.#kind === "embedding") return { ...standard, services: {} };
    // A service without a price of input and output stays one that is refused. One of 0 is a mistake of the list.
    const services = serviceTiers.flatMap((service) => {
      const tiers = this.#tiers(service);
      if (tiers === undefined || (hasZero(tiers.base) && !hasZero(standard.base))) return [];
      return [[service, this.#withFallbacks(tiers, standard.base, service)] as const];
    });
    const fast = this.#fast && { fast: timesTokens(standard, this.#fast) };
    return { ...standard, services: { ...Object.fromEntries(services), ...fast } };
  }

  #tiers(service: ServiceTier | undefined): DollarTiers | undefined {
    const [first, ...longer] = this.#places.get(service) ?? [];
    if (first === undefined || first.above > 0) return undefined;
    const base = this.#pricesOf(first.costs);
    if (base.input === undefined) return undefined;
    if (this.#kind === "embedding") return { base: { input: base.input }, tiers: [] };
    if (base.output === undefined) return undefined;
    const inForce = new Map(first.costs);
    const tiers = longer.map((one): DollarTier => {
      // A price above 200,000 tokens also holds above 272,000, unless that border has its own.
      for (const [name, cost] of one.costs) inForce.set(name, cost);
      const prices = this.#pricesOf(inForce);
      const own = Object.entries(prices).filter(([name, cost]) => {
        const before = base[name as PriceName];
        // A price that only long prompts have would fall back to another one for short prompts.
        if (before === undefined) this.leftOut.push(one.fields.get(name as PriceName) ?? name);
        return before !== undefined && compare(before, cost) !== 0;
      });
      return { abovePromptTokens: one.above, prices: Object.fromEntries(own) };
    });
    return { base, tiers };
  }

  /** Dollars for as many as the unit of each price says. */
  #pricesOf(costs: ReadonlyMap<CostName, Decimal>): DollarPrices {
    const prices: { [Name in PriceName]?: Decimal } = {};
    for (const figure of byPrice) {
      const { name } = figure.price;
      const cost = costs.get(name);
      if (cost === undefined || (cost.digits === 0n && !isRequired(figure))) continue;
      prices[name] = inUnits(cost, figure);
    }
    const reasoning = roundUpDigits(shift(costs.get("reasoning") ?? zero, 6), DIGITS_MAX);
    if (prices.output !== undefined && compare(prices.output, reasoning) < 0) {
      this.#notes.add("Reasoning costs more than other output. Its price is used for all output.");
      prices.output = reasoning;
    }
    const { cacheWrite, cacheWrite1h } = prices;
    if (cacheWrite && cacheWrite1h && compare(cacheWrite1h, cacheWrite) < 0) {
      this.#notes.add(
        "In the list a cache write for 1 hour costs less than one for 5 minutes. The higher price is used for both.",
      );
      prices.cacheWrite1h = cacheWrite;
    }
    return prices;
  }

  /** In a service that costs more, a price that only the standard service has would be too low: it rises with the others. */
  #withFallbacks(tiers: DollarTiers, standard: DollarPrices, service: ServiceTier): DollarTiers {
    const base: { [Name in PriceName]?: Decimal } = { ...tiers.base };
    for (const { name, price, fallback } of byPrice) {
      const usual = standard[price.name];
      const [before, after] = [standard, base].map(
        (one) => fallback && (one[fallback] ?? one.input),
      );
      if (!usual || base[price.name] || !before || !after || compare(after, before) <= 0) continue;
      base[price.name] = roundUpDigits(ratioUp(usual, after, before), DIGITS_MAX);
      this.#notes.add(
        `The list has no price of ${figureDocs[name].of} in the service tier ${service}: it is taken to rise as the others.`,
      );
    }
    return { ...tiers, base };
  }

  notes(): readonly string[] {
    const notes = [...this.#notes];
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

function hasZero(prices: DollarPrices): boolean {
  return Object.values(prices).some(({ digits }) => digits === 0n);
}

/** The prices of tokens times a number. Others are the same in each service. */
function timesTokens({ base, tiers }: DollarTiers, factor: Decimal): DollarTiers {
  const times = (prices: DollarPrices): DollarPrices =>
    Object.fromEntries(
      byPrice.flatMap(({ price: { name }, unit }) => {
        const cost = prices[name];
        if (cost === undefined || unit.things !== "tokens") return [];
        return [[name, roundUpDigits(multiply(cost, factor), DIGITS_MAX)]];
      }),
    );
  return {
    base: times(base),
    tiers: tiers.map((tier) => ({
      abovePromptTokens: tier.abovePromptTokens,
      prices: times(tier.prices),
    })),
  };
}

/** Where a cost stands in the list. */
interface Place {
  readonly field: string;
  readonly service: ServiceTier | undefined;
  readonly above: number;
}

function serviceNamed(suffix: string | undefined): ServiceTier | undefined {
  if (suffix === undefined) return undefined;
  return suffix.startsWith("batch") ? "batch" : serviceTiers.find((service) => service === suffix);
}

/** The tokens above which a tier of `tiered_pricing` applies. */
function lowerEnd(tier: unknown): number | undefined {
  const { range } = fieldsOf(tier);
  return Array.isArray(range) ? tokenCount(range[0]) : undefined;
}

/** A cache price of 0 means that the provider has none. */
function isRequired({ fallback, isExtra }: Figure): boolean {
  return fallback === undefined && isExtra !== true;
}

/** Numbers of TOML are doubles: they carry so many digits exactly. */
const DIGITS_MAX = 15;

/** Dollars for as many as the unit of the price says, from dollars for one. */
function inUnits(cost: Decimal, { unit }: Figure): Decimal {
  const power = unit.per.replaceAll(",", "").length - 1;
  return roundUpDigits(shift(cost, power), DIGITS_MAX);
}

/** Whether a value is a number above 0, or a list or a table of prices. */
function isCost(value: unknown): boolean {
  if (isJsonObject(value) || Array.isArray(value)) return Object.keys(value).length > 0;
  const cost = parseDecimal(textOf(value));
  return cost !== undefined && cost.digits > 0n;
}
