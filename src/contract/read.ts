import { isJsonObject, scanObject, type JsonObjectText } from "../lib/json.ts";
import { CostlyJsonError, parseUntrusted } from "../lib/untrustedJson.ts";
import { hasLoneSurrogateEscape } from "../lib/surrogate.ts";
import { invalidRequest } from "./errors.ts";
import { shownKey } from "./humanError.ts";

/**
 * Reads a text that must be a JSON object. The value and the text are sure to mean the same: a key that stands twice
 * is refused, because one reader would take the first and another the last. Throws ApiError 400.
 */
export function parseJsonObject({
  text,
  bytes,
}: {
  readonly text: string;
  readonly bytes?: Uint8Array;
}): {
  value: Record<string, unknown>;
  object: JsonObjectText;
} {
  const value = parse(text);
  if (!isJsonObject(value)) throw invalidRequest("body must be a JSON object");
  const object = scanObject(text, bytes);
  if (object.duplicateKey !== undefined) {
    throw invalidRequest(`${shownKey(object.duplicateKey)} stands twice`);
  }
  if (hasLoneSurrogateEscape(text)) throw invalidRequest("invalid unicode");
  return { value, object };
}

function parse(text: string): unknown {
  try {
    return parseUntrusted(text);
  } catch (error) {
    if (error instanceof CostlyJsonError) throw invalidRequest(`body ${error.message}`);
    // The parser's error quotes the body, which must not reach a log: so it is no cause here.
    throw invalidRequest("body is not valid JSON");
  }
}
