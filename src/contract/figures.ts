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

/** What is billed one by one. */
const perThousand = <Things extends string>(things: Things) =>
  ({
    things,
    per: "1,000",
    nanoOfOne: 1000n,
    example: "900 roubles are 900000",
    words: ["per 1,000", "за 1000"],
    implausible: 100_000,
  }) as const satisfies Unit;

/** A count of a request that has a price. */
interface AnyFigure {
  readonly name: string;
  /** The name in documents, reports and the database. */
  readonly field: string;
  readonly unit: Unit;
  /** `name`: in `Price`. `key`: in the config and in documents. */
  readonly price: { readonly name: string; readonly key: string };
  /**
   * Where the row of a request has the price. The count has a column too, of the name `field`. Without it both are in a row
   * of `request_figures`, which a request has only where there is any.
   */
  readonly priceColumn?: string;
  /** The figure that counts this one too. Its own price is for the rest. */
  readonly within?: string;
  /** The name of the price that is its price if it has none. */
  readonly fallback?: string;
  /** Receipts show it only where there is any, and it is among the last columns of CSV. */
  readonly isExtra?: true;
  /** So does a figure with this, and documents have it only where there is any. */
  readonly isRare?: true;
  /** It is sold only with a price of its own. */
  readonly needsPrice?: true;
  /** A part that only a request which asks for it can have. */
  readonly isAsked?: true;
  /** It is beside the tokens of prompt and answer: what the provider's tools use. */
  readonly isApart?: true;
  /** An embedding model has it too. */
  readonly ofEmbeddings?: true;
  /** What the command line calls it, if not as a receipt does. */
  readonly label?: string;
  /** What a receipt calls it, in each language. */
  readonly words: readonly [en: string, ru: string];
  /** The kind of `tollgate_tokens_total`, if it is not in the name. What is billed one by one has a metric of its own. */
  readonly metric?: string;
}

/** Every figure of a request, in the order of documents. */
export const figures = [
  {
    name: "promptTokens",
    field: "prompt_tokens",
    unit: TOKENS,
    priceColumn: "price_input",
    price: { name: "input", key: "rub_input_per_1m" },
    ofEmbeddings: true,
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
    price: { name: "cachedInput", key: "rub_cached_input_per_1m" },
    fallback: "input",
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
    price: { name: "cacheWrite", key: "rub_cache_write_per_1m" },
    fallback: "input",
    label: "cache write",
    words: ["Written to the cache", "Запись в кэш"],
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
    },
    fallback: "cacheWrite",
    isExtra: true,
    needsPrice: true,
    isAsked: true,
    label: "cache write, 1 h",
    words: ["Written to the cache for an hour", "Запись в кэш на час"],
  },
  {
    name: "completionTokens",
    field: "completion_tokens",
    unit: TOKENS,
    priceColumn: "price_output",
    price: { name: "output", key: "rub_output_per_1m" },
    label: "output",
    words: ["Answer", "Ответ"],
    metric: "output",
  },
  {
    name: "audioInputTokens",
    field: "audio_input_tokens",
    unit: TOKENS,
    within: "promptTokens",
    price: { name: "audioInput", key: "rub_audio_input_per_1m" },
    fallback: "input",
    isRare: true,
    needsPrice: true,
    isAsked: true,
    words: ["Audio of the prompt", "Аудио в промпте"],
  },
  {
    name: "cachedAudioTokens",
    field: "cached_audio_input_tokens",
    unit: TOKENS,
    within: "cachedTokens",
    price: {
      name: "cachedAudioInput",
      key: "rub_cached_audio_input_per_1m",
    },
    fallback: "audioInput",
    isRare: true,
    needsPrice: true,
    isAsked: true,
    words: ["Audio from the cache", "Аудио из кэша"],
  },
  {
    name: "imageInputTokens",
    field: "image_input_tokens",
    unit: TOKENS,
    within: "promptTokens",
    price: { name: "imageInput", key: "rub_image_input_per_1m" },
    fallback: "input",
    isRare: true,
    words: ["Images of the prompt", "Картинки в промпте"],
  },
  {
    name: "audioOutputTokens",
    field: "audio_output_tokens",
    unit: TOKENS,
    within: "completionTokens",
    price: { name: "audioOutput", key: "rub_audio_output_per_1m" },
    fallback: "output",
    isRare: true,
    needsPrice: true,
    isAsked: true,
    words: ["Audio of the answer", "Аудио в ответе"],
  },
  {
    name: "imageOutputTokens",
    field: "image_output_tokens",
    unit: TOKENS,
    within: "completionTokens",
    price: { name: "imageOutput", key: "rub_image_output_per_1m" },
    fallback: "output",
    isRare: true,
    needsPrice: true,
    words: ["Images of the answer", "Картинки в ответе"],
  },
  {
    name: "imageToolTextTokens",
    field: "image_tool_text_tokens",
    unit: TOKENS,
    price: {
      name: "imageToolText",
      key: "rub_image_tool_text_per_1m",
    },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Image tool, text", "Генератор картинок, текст"],
  },
  {
    name: "imageToolInputTokens",
    field: "image_tool_input_tokens",
    unit: TOKENS,
    price: {
      name: "imageToolInput",
      key: "rub_image_tool_input_per_1m",
    },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Image tool, images", "Генератор картинок, картинки"],
  },
  {
    name: "imageToolOutputTokens",
    field: "image_tool_output_tokens",
    unit: TOKENS,
    price: {
      name: "imageToolOutput",
      key: "rub_image_tool_output_per_1m",
    },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Image tool, answer", "Генератор картинок, ответ"],
  },
  {
    name: "webSearches",
    field: "web_searches",
    unit: perThousand("searches"),
    price: { name: "webSearch", key: "rub_web_search_per_1k" },
    isExtra: true,
    isApart: true,
    needsPrice: true,
    label: "web searches",
    words: ["Web searches", "Поиск в интернете"],
  },
  {
    name: "webSearchPreviews",
    field: "web_search_previews",
    unit: perThousand("searches"),
    price: {
      name: "webSearchPreview",
      key: "rub_web_search_preview_per_1k",
    },
    fallback: "webSearch",
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Web searches (preview)", "Поиск в интернете (preview)"],
  },
  {
    name: "mapSearches",
    field: "map_searches",
    unit: perThousand("searches"),
    price: { name: "mapSearch", key: "rub_map_search_per_1k" },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Google Maps", "Google Maps"],
  },
  {
    name: "xPosts",
    field: "x_posts",
    unit: perThousand("posts"),
    price: { name: "xPost", key: "rub_x_post_per_1k" },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Posts of X", "Посты X"],
  },
  {
    name: "xProfiles",
    field: "x_profiles",
    unit: perThousand("profiles"),
    price: { name: "xProfile", key: "rub_x_profile_per_1k" },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Profiles of X", "Профили X"],
  },
  {
    name: "fileSearches",
    field: "file_searches",
    unit: perThousand("searches"),
    price: { name: "fileSearch", key: "rub_file_search_per_1k" },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["File searches", "Поиск по файлам"],
  },
  {
    name: "attachmentSearches",
    field: "attachment_searches",
    unit: perThousand("searches"),
    price: {
      name: "attachmentSearch",
      key: "rub_attachment_search_per_1k",
    },
    fallback: "fileSearch",
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Attachment searches", "Поиск по вложениям"],
  },
  {
    name: "codeSessions",
    field: "code_sessions",
    unit: perThousand("sessions"),
    price: {
      name: "codeSession",
      key: "rub_code_session_per_1k",
    },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Code sessions", "Запуски кода"],
  },
  {
    name: "images",
    field: "images",
    unit: perThousand("images"),
    price: { name: "image", key: "rub_image_per_1k" },
    isApart: true,
    isRare: true,
    needsPrice: true,
    words: ["Images", "Картинки"],
  },
] as const satisfies readonly AnyFigure[];

export type Entry = (typeof figures)[number];
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

/** Figures beside the tokens of prompt and answer: what a provider bills of its tools. */
export type OtherFigure = Extract<Entry, { readonly isApart: true }>;
/** What an answer has of them, or the most that a request asks for. What is left out is 0. */
export type OtherCounts = { readonly [Name in OtherFigure["name"]]?: number };
export const otherFigures = figures.filter((figure): figure is OtherFigure => "isApart" in figure);

/** Figures that are billed one by one. */
export type CounterFigure = Exclude<Entry, { readonly unit: typeof TOKENS }>;
export function isCounter(figure: Entry): figure is CounterFigure {
  return figure.unit !== TOKENS;
}

/** The sum of each. */
export function addCounts(one: OtherCounts, other: OtherCounts = {}): OtherCounts {
  return ofEachOther(({ name }) => (one[name] ?? 0) + (other[name] ?? 0));
}

/** The larger one of each. */
export function largerCounts(one: OtherCounts, other: OtherCounts = {}): OtherCounts {
  return ofEachOther(({ name }) => Math.max(one[name] ?? 0, other[name] ?? 0));
}

/** A value for each of them. */
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

/** A value for each of these. */
export function ofEachRowFigure<Value>(
  valueOf: (figure: RowFigure) => Value,
): Record<RowFigure["name"], Value> {
  const values = rowFigures.map((figure) => [figure.name, valueOf(figure)] as const);
  return Object.fromEntries(values) as Record<RowFigure["name"], Value>;
}

/** Figures that a model may sell or not. */
export type ExtraName = Extract<Entry, { readonly isExtra: true }>["name"] | RareEntry["name"];
/** The columns of CSV that are among the last, and those that are not. */
export const lastCsvFields = all.filter(isExtra).map(({ field }) => field);
export const firstCsvFields = all.filter((figure) => !isExtra(figure)).map(({ field }) => field);

export function isExtra(figure: Pick<Figure, "isExtra" | "isRare">): boolean {
  return figure.isExtra === true || figure.isRare === true;
}

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

export type RareEntry = Extract<Entry, { readonly isRare: true }>;
/** Common fields are in every document, rare ones where there is any. */
export type CountsIn<Value> = Record<Exclude<Entry, RareEntry>["field"], Value> &
  Partial<Record<RareEntry["field"], Value>>;
/** A price of a rare figure is where its count is. */
export type PricesIn<Value> = Record<Exclude<Entry, RareEntry>["price"]["key"], Value> &
  Partial<Record<RareEntry["price"]["key"], Value>>;

/** The key of what the provider charges the operator. */
export function costKeyOf({ price: { key } }: Figure): string {
  return key.replace("rub_", "rub_cost_");
}

/** The counts under their names in documents. */
export function countsOf(usage: Usage): CountsIn<number> {
  const shown = all.filter(({ name, isRare }) => !isRare || usage[name] > 0);
  return Object.fromEntries(
    shown.map(({ name, field }) => [field, usage[name]]),
  ) as CountsIn<number>;
}

export type PriceField = Entry["price"]["key"];

/** The prices under their names in documents: thousandths of a rouble per 1,000,000 tokens, and per 1,000 of the rest. */
export function pricesOf(price: Price): Record<PriceField, number> {
  return pricesUnder(byPrice, price);
}

/** The prices of a usage, without those of the rare figures that it does not have. */
export function pricesOfUsage(usage: Usage, price: Price): PricesIn<number> {
  const shown = byPrice.filter(({ name, isRare }) => !isRare || usage[name] > 0);
  return pricesUnder(shown, price) as PricesIn<number>;
}

function pricesUnder(shown: readonly Figure[], price: Price): Record<string, number> {
  return Object.fromEntries(
    shown.map(({ price: { name, key }, unit }) => [key, Number(price[name] / unit.nanoOfOne)]),
  );
}

/** The higher of two prices, for each kind of usage. */
export function higherPrice(one: Price, other: Price): Price {
  return ofEachPrice(({ price: { name } }) => (one[name] > other[name] ? one[name] : other[name]));
}

/** The lower of two prices, for each kind of usage. */
export function lowerPrice(one: Price, other: Price): Price {
  return ofEachPrice(({ price: { name } }) => (one[name] < other[name] ? one[name] : other[name]));
}
