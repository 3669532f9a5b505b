import { isEscaped } from "./json.ts";

/** The length of an escape such as `\ud83d`. */
const ESCAPE_CHARACTERS = 6;

/**
 * True when a string of the JSON text escapes one half of a surrogate pair without the other (`\ud800`).
 * Such a text is valid JSON but no valid Unicode. `text` is valid JSON, and itself well-formed.
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

/** Which half of a surrogate pair is escaped at `at`, where a backslash and a `u` stand. Four hexadecimal digits follow. */
function surrogateHalf(text: string, at: number): "first" | "second" | undefined {
  // Setting this bit leaves digits as they are and makes letters small.
  const digit = text.charCodeAt(at + 3) | 0x20;
  if ((text.charCodeAt(at + 2) | 0x20) !== 0x64 || digit < 0x38) return undefined;
  return digit === 0x38 || digit === 0x39 || digit === 0x61 || digit === 0x62 ? "first" : "second";
}
