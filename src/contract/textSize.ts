import { type JsonFields, isJsonObject, walk } from "../lib/json.ts";
import { bytesOfString, unitsOfString } from "../lib/outline.ts";

/** The size of a prompt: UTF-8 bytes of keys and strings, and what else it has. */
export interface TextSize {
  readonly textBytes: number;
  readonly nonTextParts: number;
  /** The most tokens that these parts can have. Infinity if their bytes are elsewhere. */
  readonly attachmentTokens: number;
}

export const noText: TextSize = { textBytes: 0, nonTextParts: 0, attachmentTokens: 0 };

/** Measures a value. An object that `isNonTextPart` accepts counts as one part; its members do not count. */
export function measureText(
  value: unknown,
  isNonTextPart: (object: JsonFields) => boolean = () => false,
): TextSize {
  let textBytes = 0;
  let nonTextParts = 0;
  let attachmentTokens = 0;
  walk(value, (found, key) => {
    if (key !== undefined) textBytes += Buffer.byteLength(key);
    if (typeof found === "string") textBytes += bytesOfString(found);
    if (!isJsonObject(found) || !isNonTextPart(found)) return typeof found === "object";
    nonTextParts += 1;
    attachmentTokens += attachmentTokensOf(found);
    return false;
  });
  return { textBytes, nonTextParts, attachmentTokens };
}

/** The most tokens of one picture at any provider, in round numbers: 16 tiles of 258 tokens at Google. */
const PICTURE_TOKENS_MAX = 4000;
/** The fewest bytes of a picture, and of a recording, for one token. */
const PICTURE_BYTES_PER_TOKEN = 64;
const RECORDING_BYTES_PER_TOKEN = 16;
/** Shorter texts are addresses and ids. */
const DATA_CHARACTERS_MIN = 2048;
const PICTURE = /image/i;
const RECORDING = /audio|video/i;

/**
 * The most tokens that a part which is not text can have, by the bytes of its longest text, which is base64: text in a
 * compressed file can have a token for each byte. A picture has a bound of its own.
 */
export function attachmentTokensOf(part: unknown): number {
  let longest = 0;
  let kinds = "";
  walk(part, (found, key) => {
    if (typeof found === "string") {
      longest = Math.max(longest, unitsOfString(found));
      if (key === "type" || key === "media_type" || key === "format")
        kinds += ` ${found.slice(0, 64)}`;
    } else if (key !== undefined) kinds += ` ${key.slice(0, 64)}`;
    return typeof found === "object";
  });
  const bytes = longest < DATA_CHARACTERS_MIN ? 0 : (longest * 3) / 4;
  if (PICTURE.test(kinds))
    return Math.min(Math.ceil(bytes / PICTURE_BYTES_PER_TOKEN), PICTURE_TOKENS_MAX);
  if (bytes === 0) return Infinity;
  return Math.ceil(RECORDING.test(kinds) ? bytes / RECORDING_BYTES_PER_TOKEN : bytes);
}
