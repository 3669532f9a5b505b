/** Few texts have tokens so long on average; most have four to eight bytes. */
const BYTES_PER_TOKEN_MAX = 16;
const TOLERANCE = 1.5;
/** Room for answers whose bound is a handful of tokens. */
const BYTES_ALWAYS_ALLOWED = 64 * 1024;

/**
 * Whether a stream has said far more than the bound that its provider was given: it would never end.
 * `completionTokens` is the bound of all choices together.
 */
export function isRunaway(textBytes: number, completionTokens: number): boolean {
  return textBytes > BYTES_ALWAYS_ALLOWED + completionTokens * TOLERANCE * BYTES_PER_TOKEN_MAX;
}
