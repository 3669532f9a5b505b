import { capCachedTokens, type Usage } from "../contract/usage.ts";
import type { TokenLimits } from "./cost.ts";

const BYTES_PER_TOKEN = 4;
const TOKENS_PER_OTHER_PART = 1000;
/** The text that has as many tokens by the estimate as a part that is not text. */
export const BYTES_PER_OTHER_PART = BYTES_PER_TOKEN * TOKENS_PER_OTHER_PART;

/** Tokens of so many bytes of text and so many parts that are not text. Linear, whatever the text. */
export function estimateTokens(textBytes: number, nonTextParts = 0): number {
  return Math.ceil(textBytes / BYTES_PER_TOKEN) + nonTextParts * TOKENS_PER_OTHER_PART;
}

/**
 * A stream that sends each token in a delta of its own has fewer bytes in a delta than this, on average over a few
 * tokens, by all tokenizers and languages that were measured: docs/estimates.md.
 */
const MEAN_BYTES_PER_TOKEN_MAX = 12;
/** Fewer deltas than this tell nothing about a stream. */
const DELTAS_MIN = 3;

/** Text that a model generated, in UTF-8 bytes. */
export interface GeneratedText {
  readonly bytes: number;
  /** The number of deltas in which it came. Undefined where it came whole. */
  readonly deltas?: number | undefined;
}

/**
 * Tokens of generated text.
 *
 * Many servers send each token in a delta of its own. There the number of deltas is closer than the estimate by bytes,
 * which is too high for Russian, for example. Other servers put several tokens into a delta, and their number would be
 * far too low. The size of the deltas tells the two apart: where they are as short as tokens are, their number is an
 * upper bound of the estimate. A server that has two or three short tokens in each delta cannot be told apart; the
 * bound then takes at most two thirds of the estimate by bytes.
 */
export function estimateGeneratedTokens({ bytes, deltas = 0 }: GeneratedText): number {
  const byBytes = estimateTokens(bytes);
  const isTokenPerDelta = deltas >= DELTAS_MIN && canCount(deltas, bytes);
  return isTokenPerDelta ? Math.min(byBytes, deltas) : byBytes;
}

/** Whether so few tokens can have so many bytes. A figure that cannot is a placeholder, or counts something else. */
export function canCount(tokens: number, bytes: number): boolean {
  return bytes <= tokens * MEAN_BYTES_PER_TOKEN_MAX;
}

/** What is billed where the provider gave no usable figure. It never costs more than was held. */
export function estimateUsage(
  promptTokens: number,
  completionTokens: number,
  tokenLimits: TokenLimits,
): Usage {
  return withinTokenLimits(
    { promptTokens, completionTokens, cachedTokens: 0, cacheWriteTokens: 0 },
    tokenLimits,
  );
}

/** A usage cut to what a hold pays: at no price does it cost more than that. */
export function withinTokenLimits(usage: Usage, tokenLimits: TokenLimits): Usage {
  return capCachedTokens({
    ...usage,
    promptTokens: Math.min(usage.promptTokens, tokenLimits.promptTokens),
    completionTokens: Math.min(usage.completionTokens, tokenLimits.completionTokens),
  });
}
