import type { OperatorPrice, Price } from "../config/schema.ts";
import type { Usage } from "../contract/usage.ts";

/** The exact cost in nano-roubles; there is nothing to round. */
export function costOf(usage: Usage, price: Price): bigint {
  const plain = usage.promptTokens - usage.cachedTokens - usage.cacheWriteTokens;
  return (
    BigInt(plain) * price.input +
    BigInt(usage.cachedTokens) * price.cachedInput +
    BigInt(usage.cacheWriteTokens) * price.cacheWrite +
    BigInt(usage.completionTokens) * price.output
  );
}

/** What the operator pays for the same tokens by a route's own two prices. */
export function operatorCostOf(usage: Usage, price: OperatorPrice): bigint {
  return BigInt(usage.promptTokens) * price.input + BigInt(usage.completionTokens) * price.output;
}

/** What the bound of a prompt is computed from. */
export interface PromptExtent {
  bodyBytes: number;
  messageCount: number;
  /** Whether the prompt has parts whose tokens its bytes do not bound: images, files, stored context. */
  unbounded: boolean;
}

/** The tokens that a request's hold pays: those of the prompt, and those of all choices together. */
export interface TokenLimits {
  promptTokens: number;
  completionTokens: number;
}

/** Room for what a provider's template adds around each message, and around them all. */
const TOKENS_PER_MESSAGE = 16;
const TOKENS_PER_REQUEST = 256;

/**
 * Every token of a byte-level tokenizer is at least one byte, so the bytes of the body bound the
 * prompt's tokens; the model's context bounds them in any case.
 */
export function promptTokensMax(prompt: PromptExtent, contextTokens: number): number {
  if (prompt.unbounded) return contextTokens;
  const bound = prompt.bodyBytes + TOKENS_PER_MESSAGE * prompt.messageCount + TOKENS_PER_REQUEST;
  return Math.min(bound, contextTokens);
}

/** How many tokens each choice of an answer may have: the bound shrinks down to `least` where money is short. */
export interface OutputBound {
  readonly most: number;
  readonly least: number;
}

/** What may be held for a request, in nano-roubles: `least` and any number of whole `step`s, up to `most`. */
export interface AmountRange {
  readonly most: bigint;
  readonly least: bigint;
  readonly step: bigint;
}

/** One step is one token more of each choice. */
export function amountRangeOf(
  promptTokens: number,
  bound: OutputBound,
  choiceCount: number,
  price: Price,
): AmountRange {
  const prompt = BigInt(promptTokens) * dearestInput(price);
  const step = BigInt(choiceCount) * price.output;
  return {
    most: prompt + BigInt(bound.most) * step,
    least: prompt + BigInt(bound.least) * step,
    step,
  };
}

/** The bound of each choice's tokens that an amount of the range pays. */
export function boundWithin(range: AmountRange, amount: bigint, bound: OutputBound): number {
  if (amount === range.most) return bound.most;
  return bound.least + Number((amount - range.least) / range.step);
}

function dearestInput({ input, cachedInput, cacheWrite }: Price): bigint {
  return [cachedInput, cacheWrite].reduce((most, one) => (one > most ? one : most), input);
}
