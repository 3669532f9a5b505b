import type { ProviderKind } from "../../config/schema.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { multiply, roundUp, type Decimal } from "../../lib/decimal.ts";
import type { ListedCosts, ListedModel, Skipped } from "./listedModel.ts";
import { visible } from "../../lib/terminal.ts";

/** Exchange rate, margin and provider, which turn a list's cost into a price. */
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

/**
 * The keys of prices without their prefix, in the order of the output. `power`: the power of ten between a cost of the
 * list and the price.
 */
const PRICES = [
  // Thousandths of a rouble for 1,000,000 tokens, from roubles for one token.
  { cost: "input", name: "input_per_1m", power: 9 },
  { cost: "output", name: "output_per_1m", power: 9 },
  { cost: "cachedInput", name: "cached_input_per_1m", power: 9 },
  { cost: "cacheWrite", name: "cache_write_per_1m", power: 9 },
  { cost: "cacheWrite1h", name: "cache_write_1h_per_1m", power: 9 },
  // Thousandths of a rouble for 1,000 searches, from roubles for one search.
  { cost: "webSearch", name: "web_search_per_1k", power: 6 },
] as const satisfies readonly { cost: keyof ListedCosts; name: string; power: number }[];

type PriceKeys<Prefix extends string> = {
  readonly [Key in `${Prefix}${(typeof PRICES)[number]["name"]}`]?: number;
};

/** A model as the config has it, with its keys in their order. Prices are thousandths of a rouble. */
export interface ImportedModel extends PriceKeys<"rub_"> {
  readonly id: string;
  readonly kind?: "embedding";
  readonly free?: true;
  /** Null: the list has no limit, and the config requires one. */
  readonly max_output_tokens?: number | null;
  readonly context_tokens?: number;
  readonly routes: readonly [ImportedRoute];
  /** The name in the list. */
  readonly list_name: string;
  readonly notes: readonly string[];
}

interface ImportedRoute extends PriceKeys<"rub_cost_"> {
  readonly provider: string;
  readonly model: string;
  readonly api?: "responses";
  readonly responses?: true;
}

/** The highest price that the config takes. */
const PRICE_MAX = 1_000_000_000;
const NO_SEARCHES =
  "The list has a price of web searches. The gateway bills them over the responses interface and for the kind anthropic only.";
/** The most tokens that the config takes. */
const TOKENS_MAX = 100_000_000;
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
  const isAnthropic = sale.kind === undefined || sale.kind === "anthropic";
  const servesResponses = model.responses !== "no" && !hasOnlyChat;
  const sold = {
    ...model.costs,
    cacheWrite1h: isAnthropic ? model.costs.cacheWrite1h : undefined,
    webSearch: isAnthropic || servesResponses ? model.costs.webSearch : undefined,
  };
  const prices = priceKeys("rub_", sold, multiply(sale.rate, sale.factor));
  if (Object.values(prices).some((price) => price > PRICE_MAX)) {
    return { reason: `a price above ${PRICE_MAX}, the highest of the config (is --rate right?)` };
  }
  return {
    id: entry.model,
    ...(kind === "embedding" ? { kind } : {}),
    ...prices,
    ...(Object.values(prices).includes(0) ? { free: true } : {}),
    ...(kind === "chat" ? { max_output_tokens: tokens(model.maxOutputTokens) ?? null } : {}),
    ...given("context_tokens", tokens(model.maxInputTokens)),
    routes: [
      {
        provider: sale.provider,
        model: entry.model,
        ...(model.responses === "only" ? { api: "responses" } : {}),
        ...(servesResponses ? { responses: true } : {}),
        ...priceKeys("rub_cost_", sold, sale.rate),
      },
    ],
    list_name: entry.name,
    notes: [
      ...longPromptNotes(model, sale, prices),
      ...(sold.webSearch === model.costs.webSearch ? [] : [NO_SEARCHES]),
      ...model.notes,
    ],
  };
}

/** A route's name and a model's id have the same rules. A `${` would name a variable of the environment. */
function isUsableName(name: string): boolean {
  const isShown = name !== "" && name.length <= 256 && !hasUnprintable(name);
  return isShown && !/[\s,*]|\$\{/u.test(name);
}

/** The keys of all costs times a factor, rounded up. */
function priceKeys<Prefix extends "rub_" | "rub_cost_">(
  prefix: Prefix,
  costs: ListedCosts,
  factor: Decimal,
): PriceKeys<Prefix> & Readonly<Record<string, number>> {
  const keys = PRICES.flatMap(({ cost: of, name, power }) => {
    const cost = costs[of];
    if (cost === undefined) return [];
    return [[`${prefix}${name}`, Number(roundUp(multiply(cost, factor), power))] as const];
  });
  return Object.fromEntries(keys) as PriceKeys<Prefix> & Readonly<Record<string, number>>;
}

function given<Key extends string>(
  key: Key,
  value: number | undefined,
): Partial<Record<Key, number>> {
  return value === undefined ? {} : ({ [key]: value } as Partial<Record<Key, number>>);
}

function tokens(count: number | undefined): number | undefined {
  return count === undefined || count > TOKENS_MAX ? undefined : count;
}

function longPromptNotes(
  { shortPromptCosts }: ListedModel,
  { rate, factor }: Sale,
  prices: PriceKeys<"rub_">,
): readonly string[] {
  if (shortPromptCosts === undefined) return [];
  const short = priceKeys("rub_", shortPromptCosts, multiply(rate, factor));
  const sides = ["rub_input_per_1m", "rub_output_per_1m"] as const;
  const lower = sides.filter((side) => short[side] !== prices[side]);
  const values = lower.map((side) => `${side} = ${short[side]}`).join(", ");
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
