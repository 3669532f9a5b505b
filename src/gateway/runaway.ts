/**
 * Most texts have four to eight bytes for a token, but a client may ask for a text of the longest tokens that there
 * are: lines of dashes, and indentation, of which OpenAI's vocabularies hold runs of 128 bytes.
 */
const BYTES_PER_TOKEN_MAX = 128;
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
