import { isJsonObject, type JsonObjectText, isEscaped } from "../lib/json.ts";
import { parseObjectText } from "../lib/jsonObject.ts";
import { CostlyJsonError } from "../lib/untrustedJson.ts";
import { invalidRequest } from "./errors.ts";
import { shownKey } from "./validationMessage.ts";

/** A request's body: its text, and its bytes in UTF-8. */
export interface BodyText {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/**
 * Reads a text that must be a JSON object. Throws ApiError 400. A duplicate key is refused: one reader takes its first
 * value and another its last, so the checked value and the sent text would differ.
 */
export function parseJsonObject({ text, bytes }: Pick<BodyText, "text"> & Partial<BodyText>): {
  value: Record<string, unknown>;
  object: JsonObjectText;
} {
  const { value, object } = parse(text, bytes);
  if (!isJsonObject(value)) throw invalidRequest("body must be a JSON object");
  if (object.duplicateKey !== undefined) {
    throw invalidRequest(`${shownKey(object.duplicateKey)} stands twice`);
  }
  if (hasLoneSurrogateEscape(text)) throw invalidRequest("invalid unicode");
  return { value, object };
}

function parse(text: string, bytes: Uint8Array | undefined): ReturnType<typeof parseObjectText> {
  try {
    return parseObjectText(text, bytes);
  } catch (error) {
    if (error instanceof CostlyJsonError) throw invalidRequest(`body ${error.message}`);
    // No cause: the parser's error quotes the body, which must not reach a log.
    throw invalidRequest("body is not valid JSON");
  }
}

/** Length of `\ud83d`. */
const ESCAPE_CHARACTERS = 6;

/**
 * Whether a string of a valid JSON text escapes one half of a surrogate pair alone (`\ud800`). That is valid JSON, but
 * not valid Unicode.
 */
export function hasLoneSurrogateEscape(text: string): boolean {
  if (!text.includes("\\u")) return false;
  if (!text.includes("\\ud") && !text.includes("\\uD")) return false;
  for (let at = text.indexOf("\\u"); at >= 0; at = text.indexOf("\\u", at + 2)) {
    const half = surrogateHalf(text, at);
    if (half === undefined || isEscaped(text, at)) continue;
    if (half === "second") return true;
    at += ESCAPE_CHARACTERS;
    const isPair = text.startsWith("\\u", at) && surrogateHalf(text, at) === "second";
    if (!isPair) return true;
  }
  return false;
}

/** Which half of a surrogate pair the escape `\uXXXX` at `at` is. */
function surrogateHalf(text: string, at: number): "first" | "second" | undefined {
  // This bit makes letters lower-case and leaves digits unchanged.
  const digit = text.charCodeAt(at + 3) | 0x20;
  if ((text.charCodeAt(at + 2) | 0x20) !== 0x64 || digit < 0x38) return undefined;
  return digit === 0x38 || digit === 0x39 || digit === 0x61 || digit === 0x62 ? "first" : "second";
}
