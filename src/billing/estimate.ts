import { withCachedCut, type Usage } from "../contract/usage.ts";
import type { TokenLimits } from "./cost.ts";

const BYTES_PER_TOKEN = 4;
const TOKENS_PER_OTHER_PART = 1000;
/** The text that has as many tokens by the estimate as a part that is not text. */
export const BYTES_PER_OTHER_PART = BYTES_PER_TOKEN * TOKENS_PER_OTHER_PART;

/** Tokens of so many bytes of text and so many parts that are not text. Linear, whatever the text. */
export function estimateTokens(textBytes: number, otherParts = 0): number {
  return Math.ceil(textBytes / BYTES_PER_TOKEN) + otherParts * TOKENS_PER_OTHER_PART;
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
  return withCachedCut({
    ...usage,
    promptTokens: Math.min(usage.promptTokens, tokenLimits.promptTokens),
    completionTokens: Math.min(usage.completionTokens, tokenLimits.completionTokens),
  });
}
