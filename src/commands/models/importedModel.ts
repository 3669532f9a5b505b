import type { ProviderKind } from "../../config/schema.ts";
import { figureDocs } from "../../contract/answerFields.ts";
import {
  numbersOf,
  priceTable,
  tomlLines,
  type DollarList,
  type PriceTable,
} from "../../config/dollarPrices.ts";
import { costKeyOf } from "../../contract/figures.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { multiply, plusPercent, roundUp, zero, type Decimal } from "../../lib/decimal.ts";
import { visible } from "../../lib/terminal.ts";
import { soldOver } from "../prices/listFigures.ts";
import type { ListedModel, Skipped } from "../prices/listedModel.ts";

/** Exchange rate, margin and provider, which turn a list's cost into a price. */
export interface Sale {
  /** Roubles for one unit of the list's currency. Undefined: the prices stay in dollars. */
  readonly rate: Decimal | undefined;
  readonly margin: Decimal | undefined;
  /** The id of the provider in the config. */
  readonly provider: string;
  /** Undefined if the config could not be read. */
  readonly kind: ProviderKind | undefined;
}

/** A model as the config has it, with its keys in their order. */
export interface ImportedModel {
  readonly id: string;
  readonly kind?: "embedding";
  readonly prices: PriceTable;
  readonly free?: true;
  /** Null: the list has no limit, and the config requires one. */
  readonly max_output_tokens?: number | null;
  readonly context_tokens?: number;
  readonly route: ImportedRoute;
  /** The name in the list. */
  readonly list_name: string;
  readonly notes: readonly string[];
}

interface ImportedRoute {
  readonly provider: string;
  readonly model: string;
  readonly api?: "responses";
  readonly responses?: true;
  readonly costs: PriceTable;
}

/** The highest price that the config takes, in thousandths of a rouble. */
const PRICE_MAX = 1_000_000_000n;
/** The most tokens that the config takes. */
const TOKENS_MAX = 100_000_000;

/** The model with its prices. Each price in roubles is rounded up, so that none is below its cost and margin. */
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
  const responses = model.responses !== "no" && !hasOnlyChat;
  const { list, unsold } = soldOver(model.prices, { kind: sale.kind, responses });
  const highest = Object.values(list.base).concat(
    ...list.tiers.map((one) => Object.values(one.prices)),
  );
  const factor = multiply(sale.rate ?? oneRouble, plusPercent(sale.margin ?? zero));
  if (highest.some((price) => roundUp(multiply(price, factor), 3) > PRICE_MAX)) {
    return { reason: `a price above ${PRICE_MAX}, the highest of the config (is --rate right?)` };
  }
  const isFree = Object.values(list.base).some(({ digits }) => digits === 0n);
  return {
    id: entry.model,
    ...(kind === "embedding" ? { kind } : {}),
    prices: pricesOf(list, sale),
    ...(isFree ? { free: true } : {}),
    ...(kind === "chat" ? { max_output_tokens: tokens(model.maxOutputTokens) ?? null } : {}),
    ...given("context_tokens", tokens(model.maxInputTokens)),
    route: {
      provider: sale.provider,
      model: entry.model,
      ...(model.responses === "only" ? { api: "responses" } : {}),
      ...(responses ? { responses: true } : {}),
      costs: costsOf(list, sale),
    },
    list_name: entry.name,
    notes: [
      ...unsold.map(
        ({ name }) =>
          `The list has a price of ${figureDocs[name].of}, and the gateway does not sell them over this route.`,
      ),
      ...model.notes,
    ],
  };
}

const oneRouble: Decimal = { digits: 1n, places: 0 };

/** A route's name and a model's id have the same rules. A `${` would name a variable of the environment. */
function isUsableName(name: string): boolean {
  const isShown = name !== "" && name.length <= 256 && !hasUnprintable(name);
  return isShown && !/[\s,*]|\$\{/u.test(name);
}

function pricesOf(list: DollarList, { rate, margin }: Sale): PriceTable {
  if (rate !== undefined)
    return inRoubles(list, multiply(rate, plusPercent(margin ?? zero)), ({ price }) => price.key);
  return { ...priceTable(list), ...(margin && { margin_percent: margin }) };
}

/** Prices in dollars are the costs of the route too. */
function costsOf(list: DollarList, { rate }: Sale): PriceTable {
  return rate === undefined ? {} : inRoubles(list, rate, costKeyOf);
}

/** Thousandths of a rouble, rounded up. */
function inRoubles(
  list: DollarList,
  factor: Decimal,
  keyOf: (figure: Parameters<NonNullable<Parameters<typeof priceTable>[1]>>[1]) => string,
): PriceTable {
  return priceTable(list, (dollars, figure) => [
    keyOf(figure),
    Number(roundUp(multiply(dollars, factor), 3)),
  ]);
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

/** The model for a document: with the keys of the config. */
export function modelDocument({ id, kind, prices, route, ...rest }: ImportedModel): object {
  const { costs, ...keys } = route;
  const { list_name, notes, ...limits } = rest;
  return {
    id,
    ...(kind && { kind }),
    ...numbersOf(prices),
    ...limits,
    routes: [{ ...keys, ...numbersOf(costs) }],
    list_name,
    notes,
  };
}

/** The tables of the config for one model. */
export function modelTables({
  notes,
  list_name,
  route,
  id,
  kind,
  prices,
  ...limits
}: ImportedModel): string {
  const { costs, ...keys } = route;
  const comments = [list_name === id ? [] : [`In the list: ${list_name}`], notes].flat();
  return [
    "[[models]]",
    ...comments.map(comment),
    ...lines({ id, ...(kind && { kind }) }),
    ...tomlLines(prices),
    ...lines(limits),
    "",
    "[[models.routes]]",
    ...lines(keys),
    ...tomlLines(costs),
  ].join("\n");
}

/** A comment on one line. */
export function comment(text: string): string {
  return `# ${visible(text)}`;
}

/** Names have no control characters, so that their JSON form is the form of a text in the config. */
function lines(
  keys: Readonly<Record<string, string | number | boolean | null>>,
): readonly string[] {
  return Object.entries(keys).flatMap(([key, value]) =>
    value === null
      ? [comment("Required, and not in the list. Write the provider's maximum:"), `# ${key} =`]
      : [`${key} = ${JSON.stringify(value)}`],
  );
}
