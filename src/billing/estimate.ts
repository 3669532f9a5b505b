import { ofEachFigure } from "../contract/figures.ts";
import { capParts } from "../contract/figureParts.ts";
import { noUsage, type Usage } from "../contract/usage.ts";
import { limitOf, type TokenLimits } from "./cost.ts";

const BYTES_PER_TOKEN = 4;
const TOKENS_PER_OTHER_PART = 1000;
/** The bytes of text that have the same estimate as one part that is not text. */
export const BYTES_PER_OTHER_PART = BYTES_PER_TOKEN * TOKENS_PER_OTHER_PART;

/** Estimates the tokens of text, in UTF-8 bytes, and of parts that are not text. */
export function estimateTokens(textBytes: number, nonTextParts = 0): number {
  return Math.ceil(textBytes / BYTES_PER_TOKEN) + nonTextParts * TOKENS_PER_OTHER_PART;
}

/**
 * The mean size of a token is smaller than this in every measured tokenizer and language, over a few tokens. So a stream
 * with one token in each delta has smaller deltas, too. Measurements: docs/concepts/estimates.md.
 */
const MEAN_BYTES_PER_TOKEN_MAX = 12;
/** With fewer deltas, their mean size proves nothing. */
const DELTAS_MIN = 3;

/** Text that a model generated, in UTF-8 bytes. */
export interface GeneratedText {
  readonly bytes: number;
  /** The number of deltas that it arrived in. Undefined if it is not a stream. */
  readonly deltas?: number | undefined;
}

/**
 * Estimates the tokens of generated text.
 *
 * Many servers send one token in each delta. Then the number of deltas is more exact than the estimate by bytes, which is
 * too high for Russian, for example. Other servers put several tokens into a delta, and the number of deltas is far too
 * low. The size of the deltas decides: if they are as short as tokens, their number is an upper bound of the estimate. A
 * server with two or three short tokens in each delta looks the same. Then the bound removes at most two thirds of the
 * estimate by bytes.
 */
export function estimateGeneratedTokens({ bytes, deltas = 0 }: GeneratedText): number {
  const byBytes = estimateTokens(bytes);
  const isTokenPerDelta = deltas >= DELTAS_MIN && canCount(deltas, bytes);
  return isTokenPerDelta ? Math.min(byBytes, deltas) : byBytes;
}

/** Whether this number of tokens can have this many bytes. If not, it is a placeholder or counts something else. */
export function canCount(tokens: number, bytes: number): boolean {
  return bytes <= tokens * MEAN_BYTES_PER_TOKEN_MAX;
}

/** The usage to charge if the provider reported no usable one. It never costs more than the hold. */
export function estimateUsage(
  promptTokens: number,
  completionTokens: number,
  tokenLimits: TokenLimits,
): Usage {
  return withinTokenLimits({ ...noUsage, promptTokens, completionTokens }, tokenLimits);
}

/** Cuts a usage to the token limits of its hold. At any prices it then costs no more than the hold. */
export function withinTokenLimits(usage: Usage, tokenLimits: TokenLimits): Usage {
  return capParts(
    ofEachFigure((figure) => Math.min(usage[figure.name], limitOf(tokenLimits, figure))),
  );
}
