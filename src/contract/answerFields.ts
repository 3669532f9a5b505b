import { Type, type TSchema } from "@sinclair/typebox";

// Fields that the answers of several interfaces have in common.

/** An amount of money in JSON: a decimal string. */
export const Roubles = Type.String({
  description: "Roubles: a decimal with at most 9 digits after the point and no trailing zeros.",
  pattern: String.raw`^-?(0|[1-9]\d*)(\.\d{0,8}[1-9])?$`,
  examples: ["12.5", "-3", "0"],
});

/** A price of the price list; `of` says of which tokens. */
export function price(of: string) {
  return Type.Integer({
    minimum: 0,
    description: `Thousandths of a rouble per 1,000,000 ${of} tokens.`,
  });
}

/** A count of tokens. */
export function tokens(description: string) {
  return Type.Integer({ minimum: 0, description });
}

/** The token counts of one request, or of a group of requests. */
export const tokenCountFields = {
  prompt_tokens: tokens("Tokens of the prompts, the cached ones among them."),
  cached_tokens: tokens("Tokens read from the providers' caches."),
  cache_write_tokens: tokens("Tokens written to the providers' caches."),
  completion_tokens: tokens("Tokens of the answers, those of reasoning among them."),
};

/** A time, as ISO 8601 in UTC. */
export function time() {
  return Type.String({ description: "ISO 8601 in UTC.", format: "date-time" });
}

export function orNull<Schema extends TSchema>(schema: Schema) {
  return Type.Union([schema, Type.Null()]);
}
