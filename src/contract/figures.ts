// The store's Worker and the pages of a browser load this file, so it imports nothing.

/** What a price is for. */
interface Unit {
  readonly things: string;
  /** A price is thousandths of a rouble for so many, as text. */
  readonly per: string;
  /** Nano-roubles of one at a price of 1. */
  readonly nanoOfOne: bigint;
  readonly example: string;
  /** Behind a price, in each language. */
  readonly words: readonly [en: string, ru: string];
  /** A count from here on is a provider's mistake. */
  readonly implausible: number;
}

const TOKENS = {
  things: "tokens",
  per: "1,000,000",
  nanoOfOne: 1n,
  example: "25 roubles are 25000",
  words: ["per 1M", "за 1 млн"],
  implausible: 1_000_000_000,
} as const satisfies Unit;

const SEARCHES = {
  things: "searches",
  per: "1,000",
  nanoOfOne: 1000n,
  example: "900 roubles are 900000",
  words: ["per 1,000", "за 1000"],
  implausible: 1_000_000,
} as const satisfies Unit;

/** A count of a request that has a price. */
interface AnyFigure {
  readonly name: string;
  /** The name in documents, reports and the database. */
  readonly field: string;
  readonly unit: Unit;
  /** `name`: in `Price`. `key`: in the config and in documents. `of` completes "per 1,000,000". */
  readonly price: { readonly name: string; readonly key: string; readonly of: string };
  /**
   * Where the row of a request has the price. The count has a column too, of the name `field`. Without it both are in a row
   * of `request_figures`, which a request has only where there is any.
   */
  readonly priceColumn?: string;
  /** The key of what the provider charges the operator. */
  readonly costKey: string;
  /** The figure that counts this one too. Its own price is for the rest. */
  readonly within?: string;
  /** The name of the price that is its price if it has none. */
  readonly fallback?: string;
  /**
   * It is sold only with a price of its own. Receipts show it only where there is any, and it is among the last columns of
   * CSV.
   */
  readonly isExtra?: true;
  /** An embedding model has it too. */
  readonly ofEmbeddings?: true;
  /** What documents say of the count: of several requests, and of one answer that shows it where there is any. */
  readonly doc: string;
  readonly answerDoc?: string;
  /** What the command line calls it. */
  readonly label: string;
  /** What a receipt calls it, in each language. */
  readonly words: readonly [en: string, ru: string];
  /** The kind of `tollgate_tokens_total`, or a metric of its own. */
  readonly metric: string | { readonly name: string; readonly help: string };
}

/** Every figure of a request, in the order of documents. */
export const figures = [
  {
    name: "promptTokens",
    field: "prompt_tokens",
    unit: TOKENS,
    priceColumn: "price_input",
    price: { name: "input", key: "rub_input_per_1m", of: "input tokens" },
    costKey: "rub_cost_input_per_1m",
    ofEmbeddings: true,
    doc: "Tokens of the prompts, including cached tokens.",
    label: "input",
    words: ["Prompt, not cached", "Промпт мимо кэша"],
    metric: "input",
  },
  {
    name: "cachedTokens",
    field: "cached_tokens",
    unit: TOKENS,
    within: "promptTokens",
    priceColumn: "price_cached_input",
    price: { name: "cachedInput", key: "rub_cached_input_per_1m", of: "cached input tokens" },
    costKey: "rub_cost_cached_input_per_1m",
    fallback: "input",
    doc: "Tokens read from the providers' caches.",
    label: "cached input",
    words: ["Prompt from the cache", "Промпт из кэша"],
    metric: "cached_input",
  },
  {
    name: "cacheWriteTokens",
    field: "cache_write_tokens",
    unit: TOKENS,
    within: "promptTokens",
    priceColumn: "price_cache_write",
    price: { name: "cacheWrite", key: "rub_cache_write_per_1m", of: "cache-write tokens" },
    costKey: "rub_cost_cache_write_per_1m",
    fallback: "input",
    doc: "Tokens written to the providers' caches.",
    label: "cache write",
    words: ["Written to the cache", "Запись в кэш"],
    metric: "cache_write",
  },
  {
    name: "cacheWrite1hTokens",
    field: "cache_write_1h_tokens",
    unit: TOKENS,
    within: "cacheWriteTokens",
    priceColumn: "price_cache_write_1h",
    price: {
      name: "cacheWrite1h",
      key: "rub_cache_write_1h_per_1m",
      of: "one-hour cache-write tokens",
    },
    costKey: "rub_cost_cache_write_1h_per_1m",
    fallback: "cacheWrite",
    isExtra: true,
    doc: "The part of the cache-write tokens that is kept for an hour.",
    answerDoc: "The part of the cache-write tokens that is kept for an hour.",
    label: "cache write, 1 h",
    words: ["Written to the cache for an hour", "Запись в кэш на час"],
    metric: "cache_write_1h",
  },
  {
    name: "completionTokens",
    field: "completion_tokens",
    unit: TOKENS,
    priceColumn: "price_output",
    price: { name: "output", key: "rub_output_per_1m", of: "output tokens" },
    costKey: "rub_cost_output_per_1m",
    doc: "Tokens of the answers, including reasoning.",
    label: "output",
    words: ["Answer", "Ответ"],
    metric: "output",
  },
  {
    name: "webSearches",
    field: "web_searches",
    unit: SEARCHES,
    price: { name: "webSearch", key: "rub_web_search_per_1k", of: "web searches" },
    costKey: "rub_cost_web_search_per_1k",
    isExtra: true,
    doc: "Web searches that providers ran.",
    answerDoc: "Web searches that the provider ran.",
    label: "web searches",
    words: ["Web searches", "Поиск в интернете"],
    metric: {
      name: "tollgate_web_searches_total",
      help: "Billed web searches that providers ran.",
    },
  },
] as const satisfies readonly AnyFigure[];

type Entry = (typeof figures)[number];
/** An entry of the list. Without its own literals, so that what is said of all entries is a text. */
export interface Figure extends AnyFigure {
  readonly name: FigureName;
  readonly field: Entry["field"];
  readonly price: AnyFigure["price"] & {
    readonly name: PriceName;
    readonly key: Entry["price"]["key"];
  };
  readonly within?: FigureName;
  readonly fallback?: PriceName;
}

export type FigureName = Entry["name"];
export type PriceName = Entry["price"]["name"];

/**
 * What is billed for one answer. Cached and cache-write tokens are part of the prompt tokens, reasoning tokens are part of
 * the completion tokens. An unknown usage is `undefined`, never zeros.
 */
export type Usage = Record<FigureName, number>;

/** Nano-roubles of one. For a token this equals thousandths of a rouble per 1,000,000. */
export type Price = Readonly<Record<PriceName, bigint>>;

const all: readonly Figure[] = figures;

/** Figures that are no tokens: what a provider bills one by one. */
export type OtherFigure = Exclude<Entry, { readonly unit: typeof TOKENS }>;
/** What an answer has of them, or the most that a request asks for. What is left out is 0. */
export type OtherCounts = { readonly [Name in OtherFigure["name"]]?: number };
export const otherFigures = figures.filter(
  (figure): figure is OtherFigure => figure.unit !== TOKENS,
);

/** The sum of each. */
export function addCounts(one: OtherCounts, other: OtherCounts = {}): OtherCounts {
  return ofEachOther(({ name }) => (one[name] ?? 0) + (other[name] ?? 0));
}

/** The larger one of each. */
export function largerCounts(one: OtherCounts, other: OtherCounts = {}): OtherCounts {
  return ofEachOther(({ name }) => Math.max(one[name] ?? 0, other[name] ?? 0));
}

/** A value for each figure that is no token. */
export function ofEachOther<Value>(
  valueOf: (figure: OtherFigure) => Value,
): Record<OtherFigure["name"], Value> {
  const values = otherFigures.map((figure) => [figure.name, valueOf(figure)] as const);
  return Object.fromEntries(values) as Record<OtherFigure["name"], Value>;
}

/** Figures that have columns of their own in the store. */
export type ColumnFigure = Extract<Entry, { readonly priceColumn: string }>;
export const columnFigures = figures.filter((figure) => "priceColumn" in figure);
/** Figures that are rows of `request_figures`. */
export type RowFigure = Exclude<Entry, ColumnFigure>;
export const rowFigures = figures.filter(
  (figure): figure is RowFigure => !("priceColumn" in figure),
);

/** A value for each of them. */
export function ofEachRowFigure<Value>(
  valueOf: (figure: RowFigure) => Value,
): Record<RowFigure["name"], Value> {
  const values = rowFigures.map((figure) => [figure.name, valueOf(figure)] as const);
  return Object.fromEntries(values) as Record<RowFigure["name"], Value>;
}

/** Figures that are sold only with a price of their own. */
export type ExtraName = Extract<Entry, { readonly isExtra: true }>["name"];
/** The columns of CSV that are among the last, and those that are not. */
export const lastCsvFields = all.filter(({ isExtra }) => isExtra).map(({ field }) => field);
export const firstCsvFields = all.filter(({ isExtra }) => !isExtra).map(({ field }) => field);

/** In the order of prices in the config and in documents: what is in no other figure, then parts of tokens, then the rest. */
export const byPrice = all.toSorted((one, other) => priceRank(one) - priceRank(other));

function priceRank({ unit, within }: Figure): number {
  if (unit !== TOKENS) return 2;
  return within === undefined ? 0 : 1;
}

export function ofEachFigure<Value>(valueOf: (figure: Figure) => Value): Record<FigureName, Value> {
  return Object.fromEntries(all.map((figure) => [figure.name, valueOf(figure)])) as Record<
    FigureName,
    Value
  >;
}

export function ofEachPrice<Value>(valueOf: (figure: Figure) => Value): Record<PriceName, Value> {
  return Object.fromEntries(
    byPrice.map((figure) => [figure.price.name, valueOf(figure)]),
  ) as Record<PriceName, Value>;
}

const parts = ofEachFigure(({ name }) => all.filter(({ within }) => within === name));

/** What is billed at the figure's own price: its count without the parts that have prices of their own. */
export function billedCount(usage: Usage, name: FigureName): number {
  return parts[name].reduce((rest, part) => rest - usage[part.name], usage[name]);
}

/** The counts under their names in documents. */
export function countsOf(usage: Usage): Record<Entry["field"], number> {
  return Object.fromEntries(all.map(({ name, field }) => [field, usage[name]])) as Record<
    Entry["field"],
    number
  >;
}

export type PriceField = Entry["price"]["key"];

/** The prices under their names in documents: thousandths of a rouble per 1,000,000 tokens, and per 1,000 of the rest. */
export function pricesOf(price: Price): Record<PriceField, number> {
  const prices = byPrice.map(({ price: { name, key }, unit }) => [
    key,
    Number(price[name] / unit.nanoOfOne),
  ]);
  return Object.fromEntries(prices) as Record<PriceField, number>;
}

/** The higher of two prices, for each kind of usage. */
export function higherPrice(one: Price, other: Price): Price {
  return ofEachPrice(({ price: { name } }) => (one[name] > other[name] ? one[name] : other[name]));
}

/** The lower of two prices, for each kind of usage. */
export function lowerPrice(one: Price, other: Price): Price {
  return ofEachPrice(({ price: { name } }) => (one[name] < other[name] ? one[name] : other[name]));
}
