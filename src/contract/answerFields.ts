import { Type, type TInteger, type TOptional, type TSchema } from "@sinclair/typebox";
import {
  byPrice,
  figures,
  type CountsIn,
  type Figure,
  type FigureName,
  type PriceField,
  type PricesIn,
} from "./figures.ts";

// Fields of several answers.

/** An amount of money in JSON: a decimal string. */
export const Roubles = Type.String({
  description:
    "An amount in roubles: a decimal with at most 9 digits after the point and no trailing zeros.",
  pattern: String.raw`^-?(0|[1-9]\d*)(\.\d{0,8}[1-9])?$`,
  examples: ["12.5", "-3", "0"],
});

export function tokens(description: string) {
  return Type.Integer({ minimum: 0, description });
}

/** What documents say of each count, and of what its price is. The pages of browsers do without it, so it is not in the list of figures. */
export const figureDocs: Readonly<
  Record<FigureName, { readonly doc: string; readonly of: string }>
> = {
  promptTokens: { doc: "Tokens of the prompts, including cached tokens.", of: "input tokens" },
  cachedTokens: { doc: "Tokens read from the providers' caches.", of: "cached input tokens" },
  cacheWriteTokens: { doc: "Tokens written to the providers' caches.", of: "cache-write tokens" },
  cacheWrite1hTokens: {
    doc: "The part of the cache-write tokens that is kept for an hour.",
    of: "one-hour cache-write tokens",
  },
  completionTokens: { doc: "Tokens of the answers, including reasoning.", of: "output tokens" },
  audioInputTokens: {
    doc: "Audio tokens of the prompts, without those from a cache.",
    of: "audio tokens of prompts",
  },
  cachedAudioTokens: {
    doc: "The part of the cached tokens that is audio.",
    of: "cached audio tokens",
  },
  imageInputTokens: {
    doc: "Image tokens of the prompts, without those from a cache.",
    of: "image tokens of prompts",
  },
  audioOutputTokens: { doc: "Audio tokens of the answers.", of: "audio tokens of answers" },
  imageOutputTokens: { doc: "Image tokens of the answers.", of: "image tokens of answers" },
  imageToolTextTokens: {
    doc: "Text tokens that the image tool of the providers reads.",
    of: "text tokens that the image tool reads",
  },
  imageToolInputTokens: {
    doc: "Image tokens that the image tool of the providers reads.",
    of: "image tokens that the image tool reads",
  },
  imageToolOutputTokens: {
    doc: "Tokens that the image tool of the providers generates.",
    of: "tokens that the image tool generates",
  },
  webSearches: { doc: "Web searches that providers ran.", of: "web searches" },
  webSearchPreviews: {
    doc: "Web searches of the tool `web_search_preview`.",
    of: "web searches of the tool web_search_preview",
  },
  mapSearches: {
    doc: "Answers that providers found in Google Maps.",
    of: "answers from Google Maps",
  },
  xPosts: { doc: "Posts of X that providers fetched.", of: "posts of X" },
  xProfiles: { doc: "Profiles of X that providers fetched.", of: "profiles of X" },
  fileSearches: { doc: "Searches in files that providers store.", of: "searches in stored files" },
  attachmentSearches: {
    doc: "Searches in the files of a request.",
    of: "searches in files of a request",
  },
  codeSessions: { doc: "Sessions in which providers run code.", of: "sessions of code execution" },
  images: {
    doc: "Images that providers bill one by one.",
    of: "images that are billed one by one",
  },
};

type Fields<In> = {
  [Name in keyof In]-?: undefined extends In[Name] ? TOptional<TInteger> : TInteger;
};

/** The usage of one request or of a group of requests. */
export const countFields = Object.fromEntries(
  figures.map((figure: Figure) => [
    figure.field,
    whereAny(figure, tokens(figureDocs[figure.name].doc)),
  ]),
) as Fields<CountsIn<number>>;

/** Prices as in the config. */
export const priceFields = Object.fromEntries(
  byPrice.map((figure) => [figure.price.key, priceField(figure)]),
) as Record<PriceField, TInteger>;

/** The prices of a usage. */
export const usedPriceFields = Object.fromEntries(
  byPrice.map((figure) => [figure.price.key, whereAny(figure, priceField(figure))]),
) as Fields<PricesIn<number>>;

function priceField({ name, unit: { per } }: Figure): TInteger {
  return tokens(`Thousandths of a rouble per ${per} ${figureDocs[name].of}.`);
}

function whereAny({ isRare }: Figure, field: TInteger): TInteger | TOptional<TInteger> {
  return isRare
    ? Type.Optional({ ...field, description: `${field.description} Absent if there are none.` })
    : field;
}

export function time() {
  return Type.String({ description: "A time in UTC, in ISO 8601.", format: "date-time" });
}

export function orNull<Schema extends TSchema>(schema: Schema) {
  return Type.Union([schema, Type.Null()]);
}
