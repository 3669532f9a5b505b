import {
  billedCount,
  figures,
  otherFigures,
  type Figure,
  type OtherCounts,
  type FigureName,
  type Price,
  type Usage,
} from "../contract/figures.ts";
import { families, rootOf } from "../contract/figureParts.ts";
import { greaterOf } from "../lib/money.ts";

/** The exact cost in nano-roubles. Nothing is rounded. */
export function costOf(usage: Usage, price: Price): bigint {
  let cost = 0n;
  for (const { name, price: priced } of figures) {
    if (usage[name] === 0) continue;
    cost += BigInt(billedCount(usage, name)) * price[priced.name];
  }
  return cost;
}

const CACHE_FIGURES: ReadonlySet<string> = new Set([
  "cachedTokens",
  "cacheWriteTokens",
  "cacheWrite1hTokens",
] satisfies FigureName[]);

/**
 * What the provider's prompt cache saves of the cost, in nano-roubles: what its tokens cost less than plain input. Negative
 * where writes cost more than reads save. Cached audio, whose price is its own, does not count.
 */
export function cacheSaving(usage: Usage, price: Price): bigint {
  let saved = 0n;
  for (const figure of figures) {
    if (!CACHE_FIGURES.has(figure.name)) continue;
    const count = billedCount(usage, figure.name);
    saved += BigInt(count) * (price.input - price[figure.price.name]);
  }
  return saved;
}

/**
 * Whether one read from the prompt cache saves more than its write costs beyond the plain price. Not if the cache has no
 * prices of its own, by which the operator would lose.
 */
export function cachePays({ input, cachedInput, cacheWrite }: Price): boolean {
  const premium = cacheWrite - input;
  return premium > 0n && premium < input - cachedInput;
}

/** The size of a prompt, and what it asks for besides an answer. */
export interface PromptExtent {
  bodyBytes: number;
  messageCount: number;
  /** The prompt has parts whose bytes do not limit their tokens: images, files, stored context. */
  unbounded: boolean;
  /** The figures that it asks for, of those that only a request which asks for them can have. */
  asked: readonly FigureName[];
  /**
   * The most that the provider may bill of its tools. At most 1,000,000 of all that it bills one by one, and 100,000,000
   * tokens of each kind, so that a hold fits into 64 bits.
   */
  most: OtherCounts;
}

/** A prompt that asks for nothing besides an answer. */
export const noExtras = { asked: [], most: {} } as const;

/** A prompt whose upper bound in tokens is known. */
export interface BoundedPrompt {
  tokensMax: number;
}

/** The most that a hold pays for: tokens of the prompt and of all choices together, and what the tools of the provider use. */
export interface TokenLimits {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly asked: readonly FigureName[];
  readonly most: OtherCounts;
}

/** The most of one figure. A part has the limit of its whole. */
export function limitOf(limits: TokenLimits, { name, isApart, isAsked }: Figure): number {
  if (isAsked && !limits.asked.includes(name)) return 0;
  if (isApart) return limits.most[name as keyof OtherCounts] ?? 0;
  return rootOf(name) === "promptTokens" ? limits.promptTokens : limits.completionTokens;
}

/** Tokens that a provider's chat template may add for each message and for the request. */
const TOKENS_PER_MESSAGE = 16;
const TOKENS_PER_REQUEST = 256;
/** Tokens that a tokenizer may add at the beginning and the end of an input of an embedding model. */
const TOKENS_PER_INPUT = 16;

/** What is known of the length of a prompt besides its bytes. */
export interface PromptContext {
  /** The context of the model. */
  readonly contextTokens: number;
  /** The operator has set it. */
  readonly isContextKnown: boolean;
  /** The estimate of the prompt. The hold covers it. */
  readonly estimate: number;
}

/**
 * An upper bound of the prompt's tokens. A token of a byte-level tokenizer has at least one byte, so the body's bytes are a
 * bound. The model's context is another, if the operator has set it and the estimate is below it.
 */
function promptTokensMax(
  prompt: PromptExtent,
  { contextTokens, isContextKnown, estimate }: PromptContext,
): number {
  if (prompt.unbounded) return Math.max(contextTokens, estimate);
  const bound = prompt.bodyBytes + TOKENS_PER_MESSAGE * prompt.messageCount + TOKENS_PER_REQUEST;
  return isContextKnown && estimate <= contextTokens ? Math.min(bound, contextTokens) : bound;
}

/**
 * The mean size of a token of a long prompt is smaller than this in every measured tokenizer and language:
 * docs/concepts/estimates.md. So a text with more than this many bytes for each token of the context does not fit.
 */
const PROMPT_BYTES_PER_TOKEN_MAX = 8;

/** The fewest tokens that a prompt with this much text has, in UTF-8 bytes. Parts that are not text may have few tokens. */
export function promptTokensMin(textBytes: number): number {
  return Math.floor(textBytes / PROMPT_BYTES_PER_TOKEN_MAX);
}

/**
 * An upper bound of the tokens of all inputs of an embedding model. `sizes` has for each input the UTF-8 bytes of its
 * text, or the number of its tokens. The model's context bounds each of them, if the operator has set it: a server refuses
 * longer inputs or cuts them.
 */
export function inputTokensMax(
  sizes: readonly number[],
  { contextTokens, isContextKnown }: Omit<PromptContext, "estimate">,
): number {
  const most = isContextKnown ? contextTokens : Infinity;
  let tokens = 0;
  for (const size of sizes) tokens += Math.min(size + TOKENS_PER_INPUT, most);
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

/** What a request can use besides the answer. */
type PromptLimits = Omit<TokenLimits, "completionTokens">;

/** The most that a prompt can use. */
export function promptLimits(
  prompt: PromptExtent | BoundedPrompt,
  context: PromptContext,
): PromptLimits {
  if ("tokensMax" in prompt) return { promptTokens: prompt.tokensMax, ...noExtras };
  const { asked, most } = prompt;
  return { promptTokens: promptTokensMax(prompt, context), asked, most };
}

/** The range of a request. One step is one more token of each choice. */
export function amountRangeOf(
  limits: PromptLimits,
  bound: OutputBound,
  choiceCount: number,
  price: Price,
): AmountRange {
  let prompt = 0n;
  let step = 0n;
  for (const { figure, members } of families) {
    const highest = highestPrice(members, limits.asked, price);
    if (figure.name === "completionTokens") step = BigInt(choiceCount) * highest;
    else prompt += BigInt(limitOf({ ...limits, completionTokens: 0 }, figure)) * highest;
  }
  return {
    most: prompt + BigInt(bound.most) * step,
    least: prompt + BigInt(bound.least) * step,
    step,
  };
}

/** The largest amount of the range that `money` pays. The caller has checked that the least fits. */
export function mostOf({ most, least, step }: AmountRange, money: bigint): bigint {
  return most <= money ? most : least + ((money - least) / step) * step;
}

/** The tokens of each choice that an amount of the range pays for. */
export function boundWithin(range: AmountRange, amount: bigint, bound: OutputBound): number {
  if (amount === range.most) return bound.most;
  return bound.least + Number((amount - range.least) / range.step);
}

/** Whether any of these counts has a price. */
export function costsAny(most: OtherCounts, price: Price): boolean {
  return otherFigures.some(
    (figure) => (most[figure.name] ?? 0) > 0 && price[figure.price.name] > 0n,
  );
}

/** The highest price that one of a figure may have. */
function highestPrice(
  members: readonly Figure[],
  asked: readonly FigureName[],
  price: Price,
): bigint {
  let highest = 0n;
  for (const { name, isAsked, price: priced } of members)
    if (!isAsked || asked.includes(name)) highest = greaterOf(highest, price[priced.name]);
  return highest;
}
