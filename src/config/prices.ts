import {
  byPrice,
  ofEachPrice,
  type ExtraName,
  type Figure,
  type Price,
  type PriceName,
} from "../contract/figures.ts";
import type { Inspection } from "./inspection.ts";
import { entry, type Option, type Spec, type Values } from "./option.ts";

/** The highest price and the highest rate. */
export const BILLION = 1_000_000_000;

/**
 * The highest token limit of a model. At the highest prices, a hold of this many prompt tokens, eight such choices and a
 * million web searches is 1.9e18 nano-roubles, which fits into a signed 64-bit integer.
 */
export const MODEL_TOKENS_MAX = 100_000_000;

/** The example and the documentation of the keys. */
const specs: Readonly<Record<PriceName, { readonly price: Spec; readonly cost: Spec }>> = {
  input: {
    price: { example: "25000", doc: "Required: 25 roubles per 1,000,000 prompt tokens." },
    cost: {
      example: "12000",
      doc: "What the provider charges you, for the margin in reports and for a warning of a price below it. It and the next key: set both or neither.",
    },
  },
  cachedInput: {
    price: {
      example: "2500",
      doc: "Prompt tokens read from the provider's cache. Default: the input price.",
    },
    cost: {
      example: "1200",
      doc: "The same for tokens read from its cache. Default: what input costs.",
    },
  },
  cacheWrite: {
    price: {
      example: "25000",
      doc: "Prompt tokens written to the provider's cache. Default: the input price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens written to its cache. Default: what input costs.",
    },
  },
  cacheWrite1h: {
    price: {
      example: "50000",
      doc: "Prompt tokens that are kept in the provider's cache for an hour, where the provider is of kind anthropic. Without this price a request for an hour is refused. A model that costs nothing needs no price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens that it keeps in its cache for an hour. Default: what a token written to its cache costs.",
    },
  },
  output: {
    price: { example: "200000", doc: "Required: 200 roubles per 1,000,000 completion tokens." },
    cost: { example: "96000", doc: "The same for completion tokens." },
  },
  webSearch: {
    price: {
      example: "900000",
      doc: "1,000 web searches that the provider runs and bills one by one: 900 roubles. Without this price /v1/messages refuses them, and over the responses interface of a provider they are not charged.",
    },
    cost: { example: "0", doc: "The same for 1,000 web searches. Default: 0." },
  },
};

/** What a client pays. */
export const priceOptions = ofEachPrice((figure) => {
  const { name, key } = figure.price;
  return option(figure, key, specs[name].price);
});

/** What a provider charges the operator: each has the name of the price that must cover it. */
export const costOptions = ofEachPrice((figure) =>
  option(figure, figure.costKey, specs[figure.price.name].cost),
);

/** The prices of a model or the costs of a route that stand in the file. */
export type GivenPrices = Values<typeof priceOptions>;
type SoldModel = GivenPrices & { readonly kind: string; readonly free: boolean };

/** The prices of a model with their defaults. Problems go to the inspection. */
export function readPrice(model: SoldModel, at: string, inspection: Inspection): Price {
  const price = pricesWithDefaults(model);
  const sold = byPrice.filter((figure) => isOf(model.kind, figure));
  for (const figure of sold) {
    const { name, key } = figure.price;
    if (model[name] === 0n && !model.free)
      inspection.problem(`${at}.${key}`, "is 0: add free = true if the model costs nothing");
    if (model[name] === undefined && isRequired(figure) && !model.free)
      inspection.problem(
        `${at}.${key}`,
        `is required: a whole number of ${unitText(figure.unit)}, or write free = true`,
      );
  }
  const counts = ({ price: { name }, fallback, isExtra }: Figure) =>
    !isExtra || fallback !== undefined || model[name] !== undefined;
  if (model.free && sold.filter(counts).every(({ price: { name } }) => price[name] > 0n))
    inspection.problem(`${at}.free`, "is true, but no price is 0: remove it, or set a price to 0");
  return price;
}

/** Whether the operator set the price, or the model costs nothing. */
export function readSoldExtras(
  model: SoldModel,
  price: Price,
): Readonly<Record<ExtraName, boolean>> {
  const isFree = model.free && Object.values(price).every((amount) => amount === 0n);
  const sold = byPrice
    .filter(({ isExtra }) => isExtra)
    .map(({ name, price }) => [name, isFree || model[price.name] !== undefined] as const);
  return Object.fromEntries<boolean>(sold) as Record<ExtraName, boolean>;
}

/**
 * What the provider charges the operator. The caches cost what input costs, unless given. Undefined: nothing is set.
 */
export function readOperatorPrice(
  costs: GivenPrices,
  at: string,
  modelKind: string,
  inspection: Inspection,
): Price | undefined {
  const known = byPrice.filter((figure) => isOf(modelKind, figure));
  const given = known.find(({ price: { name } }) => costs[name] !== undefined);
  if (given === undefined) return undefined;
  for (const { price, costKey } of known.filter(isRequired))
    if (costs[price.name] === undefined)
      inspection.problem(`${at}.${costKey}`, `is required with ${given.costKey}`);
  return pricesWithDefaults(costs);
}

function isOf(modelKind: string, { ofEmbeddings }: Figure): boolean {
  return modelKind !== "embedding" || ofEmbeddings === true;
}

function isRequired({ fallback, isExtra }: Figure): boolean {
  return fallback === undefined && !isExtra;
}

/** In nano-roubles of one. A fallback comes before the prices that fall back to it. */
function pricesWithDefaults(given: GivenPrices): Price {
  const price = ofEachPrice(() => 0n);
  for (const {
    price: { name },
    unit,
    fallback,
  } of byPrice) {
    const amount = given[name];
    if (amount !== undefined) price[name] = amount * unit.nanoOfOne;
    else if (fallback !== undefined) price[name] = price[fallback];
  }
  return price;
}

/** A price below the operator's cost is probably in a wrong unit. A price of 0 is intended. */
export function warnAboutLosses(
  model: GivenPrices,
  price: Price,
  costs: readonly GivenPrices[],
  at: string,
  inspection: Inspection,
): void {
  for (const [index, ofRoute] of costs.entries()) {
    for (const {
      price: { name, key },
      unit,
      isExtra,
    } of byPrice) {
      // Without its price an extra is not sold.
      const asked = (isExtra ? model[name] : price[name]) ?? 0n;
      const cost = ofRoute[name] ?? 0n;
      if (asked === 0n || asked >= cost) continue;
      inspection.warning(
        `${at}.${key}`,
        `is below the cost of routes[${index}], ${asked} for ${cost}: prices are thousandths of a rouble per ${unit.per} ${unit.things}`,
      );
    }
  }
  if (price.cachedInput > price.input) {
    inspection.warning(
      `${at}.rub_cached_input_per_1m`,
      `is higher than the input price, ${price.cachedInput} to ${price.input}: prices are thousandths of a rouble per 1,000,000 tokens`,
    );
  }
}

function unitText({ per, things, example }: Figure["unit"]): string {
  return `thousandths of a rouble per ${per} ${things} (${example})`;
}

/** Thousandths of a rouble. Undefined if it is not set. */
function option(
  { unit, ofEmbeddings }: Figure,
  key: string,
  spec: Spec,
): Option<bigint | undefined> {
  const only = ofEmbeddings ? {} : ({ only: "chat" } as const);
  return entry<bigint | undefined>(
    key,
    { ...spec, ...only },
    {
      form: `a whole number of ${unitText(unit)} from 0 to ${BILLION}`,
      accept: (value) =>
        typeof value === "bigint" && value >= 0n && value <= BILLION ? value : undefined,
      absent: undefined,
      range: `0 to ${BILLION}`,
    },
  );
}
