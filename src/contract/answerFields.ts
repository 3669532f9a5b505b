import { Type, type TSchema } from "@sinclair/typebox";

// Fields of several answers.

/** An amount of money in JSON: a decimal string. */
export const Roubles = Type.String({
  description:
    "An amount in roubles: a decimal with at most 9 digits after the point and no trailing zeros.",
  pattern: String.raw`^-?(0|[1-9]\d*)(\.\d{0,8}[1-9])?$`,
  examples: ["12.5", "-3", "0"],
});

/** A price of one kind of token. */
export function price(kind: string) {
  return Type.Integer({
    minimum: 0,
    description: `Thousandths of a rouble per 1,000,000 ${kind} tokens.`,
  });
}

export function tokens(description: string) {
  return Type.Integer({ minimum: 0, description });
}

/** The usage of one request or of a group of requests. */
export const tokenCountFields = {
  prompt_tokens: tokens("Tokens of the prompts, including cached tokens."),
  cached_tokens: tokens("Tokens read from the providers' caches."),
  cache_write_tokens: tokens("Tokens written to the providers' caches."),
  cache_write_1h_tokens: tokens("The part of the cache-write tokens that is kept for an hour."),
  completion_tokens: tokens("Tokens of the answers, including reasoning."),
  web_searches: Type.Integer({ minimum: 0, description: "Web searches that providers ran." }),
};

export function time() {
  return Type.String({ description: "A time in UTC, in ISO 8601.", format: "date-time" });
}

export function orNull<Schema extends TSchema>(schema: Schema) {
  return Type.Union([schema, Type.Null()]);
}
