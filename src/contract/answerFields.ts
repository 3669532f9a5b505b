import { Type, type TInteger, type TSchema } from "@sinclair/typebox";
import { byPrice, figures, type PriceField } from "./figures.ts";

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

/** The usage of one request or of a group of requests. */
export const countFields = Object.fromEntries(
  figures.map(({ field, doc }) => [field, tokens(doc)]),
) as Record<(typeof figures)[number]["field"], TInteger>;

/** Prices as in the config. */
export const priceFields = Object.fromEntries(
  byPrice.map(({ price: { key, of }, unit: { per } }) => [
    key,
    tokens(`Thousandths of a rouble per ${per} ${of}.`),
  ]),
) as Record<PriceField, TInteger>;

export function time() {
  return Type.String({ description: "A time in UTC, in ISO 8601.", format: "date-time" });
}

export function orNull<Schema extends TSchema>(schema: Schema) {
  return Type.Union([schema, Type.Null()]);
}
