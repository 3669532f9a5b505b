import type { Price } from "../config/schema.ts";

/** What the bound of a prompt is computed from. */
export interface PromptSize {
  bodyBytes: number;
  messageCount: number;
  /** Whether the prompt has parts whose tokens its bytes do not bound: images, files, stored context. */
  unbounded: boolean;
}

/** The most that a request can cost: tokens, and the nano-roubles to hold for them. */
export interface Ceiling {
  promptTokens: number;
  completionTokens: number;
  amount: bigint;
}

/** Room for what a provider's template adds around each message, and around them all. */
const TOKENS_PER_MESSAGE = 16;
const TOKENS_PER_REQUEST = 256;

/**
 * Every token of a byte-level tokenizer is at least one byte, so the bytes of the body bound the
 * prompt's tokens; the model's context bounds them in any case.
 */
export function promptTokensMax(prompt: PromptSize, contextTokens: number): number {
  if (prompt.unbounded) return contextTokens;
  const bound = prompt.bodyBytes + TOKENS_PER_MESSAGE * prompt.messageCount + TOKENS_PER_REQUEST;
  return Math.min(bound, contextTokens);
}

/** `completionTokens` is the bound of one choice times the number of choices. */
export function ceilingOf(promptTokens: number, completionTokens: number, price: Price): Ceiling {
  const dearestInput = [price.cachedInput, price.cacheWrite].reduce(
    (dearest, one) => (one > dearest ? one : dearest),
    price.input,
  );
  const amount = BigInt(promptTokens) * dearestInput + BigInt(completionTokens) * price.output;
  return { promptTokens, completionTokens, amount };
}
