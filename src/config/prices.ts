import { NANO_ROUBLES_PER_SEARCH_UNIT } from "../lib/money.ts";
import type { Inspection } from "./inspection.ts";
import { entry, type Option, type Spec, type Values } from "./option.ts";

/** The highest price and the highest rate. */
export const BILLION = 1_000_000_000;

/**
 * The highest token limit of a model. At the highest prices, a hold of this many prompt tokens, eight such choices and a
 * million web searches is 1.9e18 nano-roubles, which fits into a signed 64-bit integer.
 */
export const MODEL_TOKENS_MAX = 100_000_000;

/** Nano-roubles per token, which equals thousandths of a rouble per 1,000,000 tokens. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cachedInput: bigint;
  readonly cacheWrite: bigint;
  /** For tokens that the provider keeps in its cache for an hour. */
  readonly cacheWrite1h: bigint;
  /** Nano-roubles per search. */
  readonly webSearch: bigint;
}

/** True where the operator set the price, or where the model costs nothing. */
export interface SoldExtras {
  /** Cache writes for an hour. */
  readonly longCacheWrites: boolean;
  readonly webSearches: boolean;
}

/** What a client pays. */
export const priceOptions = {
  input: price("rub_input_per_1m", {
    per: "tokens",
    example: "25000",
    doc: "Required: 25 roubles per 1,000,000 prompt tokens.",
  }),
  output: price("rub_output_per_1m", {
    per: "tokens",
    example: "200000",
    only: "chat",
    doc: "Required: 200 roubles per 1,000,000 completion tokens.",
  }),
  cachedInput: price("rub_cached_input_per_1m", {
    per: "tokens",
    example: "2500",
    only: "chat",
    doc: "Prompt tokens read from the provider's cache. Default: the input price.",
  }),
  cacheWrite: price("rub_cache_write_per_1m", {
    per: "tokens",
    example: "25000",
    only: "chat",
    doc: "Prompt tokens written to the provider's cache. Default: the input price.",
  }),
  cacheWrite1h: price("rub_cache_write_1h_per_1m", {
    per: "tokens",
    example: "50000",
    only: "chat",
    doc: "Prompt tokens that are kept in the provider's cache for an hour, where the provider is of kind anthropic. Without this price a request for an hour is refused. A model that costs nothing needs no price.",
  }),
  webSearch: price("rub_web_search_per_1k", {
    per: "searches",
    example: "900000",
    only: "chat",
    doc: "1,000 web searches that the provider runs and bills one by one: 900 roubles. Without this price /v1/messages refuses them, and over the responses interface of a provider they are not charged.",
  }),
} as const;

/** What a provider charges the operator: each has the name of the price that must cover it. */
export const costOptions = {
  input: price("rub_cost_input_per_1m", {
    per: "tokens",
    example: "12000",
    doc: "What the provider charges you, for the margin in reports and for a warning of a price below it. It and the next key: set both or neither.",
  }),
  output: price("rub_cost_output_per_1m", {
    per: "tokens",
    example: "96000",
    only: "chat",
    doc: "The same for completion tokens.",
  }),
  cachedInput: price("rub_cost_cached_input_per_1m", {
    per: "tokens",
    example: "1200",
    only: "chat",
    doc: "The same for tokens read from its cache. Default: what input costs.",
  }),
  cacheWrite: price("rub_cost_cache_write_per_1m", {
    per: "tokens",
    example: "12000",
    only: "chat",
    doc: "The same for tokens written to its cache. Default: what input costs.",
  }),
  cacheWrite1h: price("rub_cost_cache_write_1h_per_1m", {
    per: "tokens",
    example: "12000",
    only: "chat",
    doc: "The same for tokens that it keeps in its cache for an hour. Default: what a token written to its cache costs.",
  }),
  webSearch: price("rub_cost_web_search_per_1k", {
    per: "searches",
    example: "0",
    only: "chat",
    doc: "The same for 1,000 web searches. Default: 0.",
  }),
} as const;

type PriceName = keyof typeof priceOptions;
const priceNames = Object.keys(priceOptions) as PriceName[];

/** The prices of a model or the costs of a route that stand in the file. */
export type GivenPrices = Values<typeof priceOptions>;
type SoldModel = GivenPrices & { readonly kind: string; readonly free: boolean };

/** The prices of a model with their defaults. Problems go to the inspection. */
export function readPrice(model: SoldModel, at: string, inspection: Inspection): Price {
  const isEmbedding = model.kind === "embedding";
  const read = (name: PriceName, fallback?: bigint): bigint => {
    const given = model[name];
    const key = `${at}.${priceOptions[name].keys[0]}`;
    if (given === 0n && !model.free)
      inspection.problem(key, "is 0: add free = true if the model costs nothing");
    if (given === undefined && fallback === undefined && !model.free)
      inspection.problem(
        key,
        "is required: a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000), or write free = true",
      );
    return given ?? fallback ?? 0n;
  };
  const input = read("input");
  const cacheWrite = read("cacheWrite", input);
  const perToken = {
    input,
    output: isEmbedding ? 0n : read("output"),
    cachedInput: read("cachedInput", input),
    cacheWrite,
    cacheWrite1h: read("cacheWrite1h", cacheWrite),
  };
  const search = read("webSearch", 0n);
  const ofModel = isEmbedding ? [input] : Object.values(perToken);
  const set = [...ofModel, ...(model.webSearch === 0n ? [0n] : [])];
  if (model.free && set.every((amount) => amount > 0n))
    inspection.problem(`${at}.free`, "is true, but no price is 0: remove it, or set a price to 0");
  return { ...perToken, webSearch: search * NANO_ROUBLES_PER_SEARCH_UNIT };
}

/** What of a model is sold besides tokens of the usual prices. */
export function readSoldExtras(model: SoldModel, price: Price): SoldExtras {
  const isFree = model.free && Object.values(price).every((amount) => amount === 0n);
  return {
    longCacheWrites: isFree || model.cacheWrite1h !== undefined,
    webSearches: isFree || model.webSearch !== undefined,
  };
}

/** What the provider charges. The caches cost what input costs, unless given. Undefined: nothing is set. */
export function readOperatorPrice(
  costs: GivenPrices,
  at: string,
  modelKind: string,
  inspection: Inspection,
): Price | undefined {
  const isEmbedding = modelKind === "embedding";
  const known = isEmbedding ? (["input"] as const) : priceNames;
  const given = known.find((name) => costs[name] !== undefined);
  if (given === undefined) return undefined;
  const keyOf = (name: PriceName) => costOptions[name].keys[0];
  const read = (name: PriceName): bigint => {
    if (costs[name] === undefined)
      inspection.problem(`${at}.${keyOf(name)}`, `is required with ${keyOf(given)}`);
    return costs[name] ?? 0n;
  };
  const input = read("input");
  const cacheWrite = costs.cacheWrite ?? input;
  return {
    input,
    output: isEmbedding ? 0n : read("output"),
    cachedInput: costs.cachedInput ?? input,
    cacheWrite,
    cacheWrite1h: costs.cacheWrite1h ?? cacheWrite,
    webSearch: (costs.webSearch ?? 0n) * NANO_ROUBLES_PER_SEARCH_UNIT,
  };
}

/** A price below the operator's cost is probably in a wrong unit. A price of 0 is intended. */
export function warnAboutLosses(
  model: GivenPrices,
  price: Price,
  costs: readonly GivenPrices[],
  at: string,
  inspection: Inspection,
): void {
  // Without their prices these two are not sold.
  const sold = { ...price, cacheWrite1h: model.cacheWrite1h, webSearch: model.webSearch };
  for (const [index, ofRoute] of costs.entries()) {
    for (const name of priceNames) {
      const [asked = 0n, cost = 0n] = [sold[name], ofRoute[name]];
      if (asked === 0n || asked >= cost) continue;
      inspection.warning(
        `${at}.${priceOptions[name].keys[0]}`,
        `is below the cost of routes[${index}], ${asked} for ${cost}: prices are thousandths of a rouble per ${name === "webSearch" ? "1,000 searches" : "1,000,000 tokens"}`,
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

/** Thousandths of a rouble. Undefined if it is not set. */
function price(
  key: string,
  spec: Spec & { readonly per: "tokens" | "searches" },
): Option<bigint | undefined> {
  const what =
    spec.per === "tokens"
      ? "1,000,000 tokens (25 roubles are 25000)"
      : "1,000 searches (900 roubles are 900000)";
  return entry<bigint | undefined>(key, spec, {
    form: `a whole number of thousandths of a rouble per ${what} from 0 to ${BILLION}`,
    accept: (value) =>
      typeof value === "bigint" && value >= 0n && value <= BILLION ? value : undefined,
    absent: undefined,
    range: `0 to ${BILLION}`,
  });
}
