import type { ProviderKind } from "../../config/schema.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { visible } from "../cli/print.ts";
import { multiply, roundUp, type Decimal } from "./decimal.ts";
import type { ListedCosts, ListedModel, Skipped } from "./listedModel.ts";

/** How costs of the list become prices. */
export interface Sale {
  /** Roubles for one unit of the list's currency. */
  readonly rate: Decimal;
  /** A price divided by its cost: 1.2 for a margin of 20 %. */
  readonly factor: Decimal;
  /** The id of the provider in the config. */
  readonly provider: string;
  /** Undefined if the config could not be read. */
  readonly kind: ProviderKind | undefined;
}

/** A model as the config has it, with its keys in their order. Prices are thousandths of a rouble. */
export interface ImportedModel {
  readonly id: string;
  readonly kind?: "embedding";
  readonly rub_input_per_1m: number;
  readonly rub_output_per_1m?: number;
  readonly rub_cached_input_per_1m?: number;
  readonly rub_cache_write_per_1m?: number;
  readonly rub_cache_write_1h_per_1m?: number;
  readonly rub_web_search_per_1k?: number;
  readonly free?: true;
  /** Null: the list has none, and the config requires one. */
  readonly max_output_tokens?: number | null;
  readonly context_tokens?: number;
  readonly routes: readonly [ImportedRoute];
  /** The name in the list. */
  readonly list_name: string;
  readonly notes: readonly string[];
}

interface ImportedRoute {
  readonly provider: string;
  readonly model: string;
  readonly api?: "responses";
  readonly responses?: true;
  readonly rub_cost_input_per_1m: number;
  readonly rub_cost_output_per_1m?: number;
}

/** The highest price that the config takes. */
const PRICE_MAX = 1_000_000_000n;
/** The most tokens that the config takes. */
const TOKENS_MAX = 100_000_000;
/** Thousandths of a rouble for 1,000,000 tokens, from roubles for one token. */
const TOKEN_PRICE_POWER = 9;
/** Thousandths of a rouble for 1,000 searches, from roubles for one search. */
const SEARCH_PRICE_POWER = 6;

type Prices = Partial<Record<keyof ListedCosts, bigint>>;

/** The model with its prices. Every price is rounded up, so that none is below its cost and margin. */
export function importModel(model: ListedModel, sale: Sale): ImportedModel | Skipped {
  const { entry, kind } = model;
  if (!isUsableName(entry.model)) return { reason: "a name that the config does not allow" };
  if (kind === "embedding" && sale.kind === "anthropic") {
    return { reason: "mode embedding, and the provider's kind has none" };
  }
  const hasOnlyChat = sale.kind !== undefined && sale.kind !== "openai";
  if (model.responses === "only" && hasOnlyChat) {
    return { reason: "mode responses, and the provider's kind has none" };
  }
  const prices = pricesOf(model.costs, multiply(sale.rate, sale.factor));
  const costs = pricesOf(model.costs, sale.rate);
  if (Object.values(prices).some((price) => price > PRICE_MAX)) {
    return { reason: `a price above ${PRICE_MAX}, the highest of the config (is --rate right?)` };
  }
  const keys = priceKeys(prices, kind);
  const zeros = Object.entries(keys).filter(([, price]) => price === 0);
  return {
    id: entry.model,
    ...(kind === "embedding" ? { kind } : {}),
    ...keys,
    ...(zeros.length > 0 ? { free: true } : {}),
    ...(kind === "chat" ? { max_output_tokens: tokens(model.maxOutputTokens) ?? null } : {}),
    ...given("context_tokens", tokens(model.maxInputTokens)),
    routes: [
      {
        provider: sale.provider,
        model: entry.model,
        ...(model.responses === "only" ? { api: "responses" } : {}),
        ...(model.responses === "no" || hasOnlyChat ? {} : { responses: true }),
        rub_cost_input_per_1m: Number(costs.input),
        ...(kind === "chat" ? { rub_cost_output_per_1m: Number(costs.output) } : {}),
      },
    ],
    list_name: entry.name,
    notes: [...longPromptNotes(model, prices, sale), ...model.notes],
  };
}

/** A route's name and a model's id have the same rules. A `${` would name a variable of the environment. */
function isUsableName(name: string): boolean {
  const isShown = name !== "" && name.length <= 256 && !hasUnprintable(name);
  return isShown && !/[\s,*]|\$\{/u.test(name);
}

function pricesOf(costs: ListedCosts, factor: Decimal): Prices & { input: bigint; output: bigint } {
  const price = (cost: Decimal, power: number) => roundUp(multiply(cost, factor), power);
  const { input, output, cachedInput, cacheWrite, cacheWrite1h, webSearch } = costs;
  return {
    input: price(input, TOKEN_PRICE_POWER),
    output: price(output, TOKEN_PRICE_POWER),
    ...(cachedInput && { cachedInput: price(cachedInput, TOKEN_PRICE_POWER) }),
    ...(cacheWrite && { cacheWrite: price(cacheWrite, TOKEN_PRICE_POWER) }),
    ...(cacheWrite1h && { cacheWrite1h: price(cacheWrite1h, TOKEN_PRICE_POWER) }),
    ...(webSearch && { webSearch: price(webSearch, SEARCH_PRICE_POWER) }),
  };
}

function priceKeys(prices: Prices & { input: bigint; output: bigint }, kind: ListedModel["kind"]) {
  return {
    rub_input_per_1m: Number(prices.input),
    ...(kind === "chat" ? { rub_output_per_1m: Number(prices.output) } : {}),
    ...given("rub_cached_input_per_1m", prices.cachedInput),
    ...given("rub_cache_write_per_1m", prices.cacheWrite),
    ...given("rub_cache_write_1h_per_1m", prices.cacheWrite1h),
    ...given("rub_web_search_per_1k", prices.webSearch),
  };
}

function given<Key extends string>(
  key: Key,
  value: number | bigint | undefined,
): Partial<Record<Key, number>> {
  return value === undefined ? {} : ({ [key]: Number(value) } as Partial<Record<Key, number>>);
}

function tokens(count: number | undefined): number | undefined {
  return count === undefined || count > TOKENS_MAX ? undefined : count;
}

function longPromptNotes(
  { shortPromptCosts }: ListedModel,
  prices: Prices,
  { rate, factor }: Sale,
): readonly string[] {
  if (shortPromptCosts === undefined) return [];
  const short = pricesOf(shortPromptCosts, multiply(rate, factor));
  const lower = (["input", "output"] as const).filter((side) => short[side] !== prices[side]);
  const values = lower.map((side) => `rub_${side}_per_1m = ${short[side]}`).join(", ");
  return [
    "The provider charges more for long prompts. The config has one price: the highest is used.",
    ...(values === "" ? [] : [`For short prompts it would be ${values}.`]),
  ];
}

/** The tables of the config for one model. */
export function modelTables({ notes, list_name, routes, ...model }: ImportedModel): string {
  const comments = [list_name === model.id ? [] : [`In the list: ${list_name}`], notes].flat();
  return [
    "[[models]]",
    ...comments.map(comment),
    ...Object.entries(model).flatMap(([key, value]) =>
      value === null ? missingLines(key) : [line(key, value)],
    ),
    ...routes.flatMap((route) => [
      "",
      "[[models.routes]]",
      ...Object.entries({ ...route }).map(([key, value]) => line(key, value)),
    ]),
  ].join("\n");
}

/** A comment on one line. */
export function comment(text: string): string {
  return `# ${visible(text)}`;
}

function missingLines(key: string): readonly string[] {
  return [comment("Required, and not in the list. Write the provider's maximum:"), `# ${key} =`];
}

/** Names have no control characters, so that their JSON form is the form of a text in the config. */
function line(key: string, value: string | number | boolean): string {
  return `${key} = ${JSON.stringify(value)}`;
}
