import type { OperatorPrice, Price } from "../config/schema.ts";
import type { Usage } from "../contract/usage.ts";

/** The exact cost in nano-roubles. Nothing is rounded. */
export function costOf(usage: Usage, price: Price): bigint {
  const plain = usage.promptTokens - usage.cachedTokens - usage.cacheWriteTokens;
  return (
    BigInt(plain) * price.input +
    BigInt(usage.cachedTokens) * price.cachedInput +
    BigInt(usage.cacheWriteTokens) * price.cacheWrite +
    BigInt(usage.completionTokens) * price.output
  );
}

/** What the operator pays for these tokens, by the route's own prices. */
export function operatorCostOf(usage: Usage, price: OperatorPrice): bigint {
  return BigInt(usage.promptTokens) * price.input + BigInt(usage.completionTokens) * price.output;
}

/** The size of a prompt. */
export interface PromptExtent {
  bodyBytes: number;
  messageCount: number;
  /** The prompt has parts whose bytes do not limit their tokens: images, files, stored context. */
  unbounded: boolean;
}

/** A prompt whose upper bound in tokens is known. */
export interface BoundedPrompt {
  tokensMax: number;
}

/** The most tokens that a hold pays for: of the prompt, and of all choices together. */
export interface TokenLimits {
  promptTokens: number;
  completionTokens: number;
}

/** Tokens that a provider's chat template may add for each message and for the request. */
const TOKENS_PER_MESSAGE = 16;
const TOKENS_PER_REQUEST = 256;
/** Tokens that a tokenizer may add at the beginning and the end of an input of an embedding model. */
const TOKENS_PER_INPUT = 16;

/**
 * An upper bound of the prompt's tokens. A token of a byte-level tokenizer has at least one byte, so the body's bytes are a
 * bound. The model's context is another.
 */
export function promptTokensMax(
  prompt: PromptExtent | BoundedPrompt,
  contextTokens: number,
): number {
  if ("tokensMax" in prompt) return prompt.tokensMax;
  if (prompt.unbounded) return contextTokens;
  const bound = prompt.bodyBytes + TOKENS_PER_MESSAGE * prompt.messageCount + TOKENS_PER_REQUEST;
  return Math.min(bound, contextTokens);
}

/**
 * An upper bound of the tokens of all inputs of an embedding model. `sizes` has for each input the UTF-8 bytes of its
 * text, or the number of its tokens. The model's context bounds each of them.
 */
export function inputTokensMax(sizes: readonly number[], contextTokens: number): number {
  let tokens = 0;
  for (const size of sizes) tokens += Math.min(size + TOKENS_PER_INPUT, contextTokens);
  return tokens;
}

/** The most tokens of each choice. The bound may shrink down to `least` if the money is short. */
export interface OutputBound {
  readonly most: number;
  readonly least: number;
}

/** The amounts that may be held, in nano-roubles: `least` plus whole `step`s, up to `most`. */
export interface AmountRange {
  readonly most: bigint;
  readonly least: bigint;
  readonly step: bigint;
}

/** The range of a request. One step is one more token of each choice. */
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

/** The tokens of each choice that an amount of the range pays for. */
export function boundWithin(range: AmountRange, amount: bigint, bound: OutputBound): number {
  if (amount === range.most) return bound.most;
  return bound.least + Number((amount - range.least) / range.step);
}

function dearestInput({ input, cachedInput, cacheWrite }: Price): bigint {
  const dearer = cachedInput > input ? cachedInput : input;
  return cacheWrite > dearer ? cacheWrite : dearer;
}
