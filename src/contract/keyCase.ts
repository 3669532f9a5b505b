import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { invalidRequest, type ApiError } from "./errors.ts";
import { shownKey } from "./validationMessage.ts";

/** The top-level fields of both interfaces by which something is decided here, checked or written over. */
const DECIDING_FIELDS: ReadonlySet<string> = new Set([
  "audio",
  "auto_max_new_tokens",
  "background",
  "conversation",
  "deferred",
  "functions",
  "input",
  "instructions",
  "max_completion_tokens",
  "max_output_tokens",
  "max_tokens",
  "mcp_servers",
  "messages",
  "model",
  "n",
  "n_cmpl",
  "n_predict",
  "previous_response_id",
  "prompt",
  "prompt_cache_options",
  "reasoning_effort",
  "response_format",
  "service_tier",
  "stop",
  "store",
  "stream",
  "stream_options",
  "system",
  "temperature",
  "text",
  "tools",
  "top_p",
  "verbosity",
]);

/**
 * What may fold to a plain lower-case letter, U+017F to s and U+212A to k: by the rules of Unicode's simple case folding
 * there is no other, https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt.
 */
const FOLDS = /[A-Z\u017f\u212a]/;

/**
 * Some providers match keys without regard to case, and of several the last one counts: all that are written in Go,
 * https://pkg.go.dev/encoding/json#Unmarshal. What was checked is not what they read then. Throws ApiError 400 for a
 * top-level field that is none of those that decide, and that such a reader takes for one.
 */
export function refuseFieldsInOtherCase(body: JsonFields, refusedFields: readonly string[]): void {
  for (const key of Object.keys(body)) {
    if (DECIDING_FIELDS.has(key) || refusedFields.includes(key)) continue;
    const folded = foldedKey(key);
    const isTaken = (name: string): boolean => foldedKey(name) === folded;
    if (DECIDING_FIELDS.has(folded) || refusedFields.some(isTaken)) throw inOtherCase(key);
  }
}

/** The one key of `prompt_cache_options` that names what is stored. */
export const COMPARISON_RESPONSE_FIELD = "comparison_response_id";
const CACHE_OPTIONS: ReadonlySet<string> = new Set([COMPARISON_RESPONSE_FIELD]);

/** The same for the keys of a request's `prompt_cache_options`, whichever interface it is for. */
export function refuseCacheOptionsInOtherCase(options: unknown): void {
  if (isJsonObject(options))
    refuseKeysInOtherCase(options, CACHE_OPTIONS, () => "prompt_cache_options.");
}

/** The same for an object inside of the body. `names` are in lower case; `path`, with its dot, is what the key is told with. */
export function refuseKeysInOtherCase(
  object: object,
  names: ReadonlySet<string>,
  path: () => string = () => "",
): void {
  for (const key in object) if (isInOtherCase(key, names)) throw inOtherCase(key, path());
}

/** False for most keys: they are their own folded form. */
export function mayFold(key: string): boolean {
  return FOLDS.test(key);
}

/** True for a key that is none of these names in lower case, and that is taken for one where case does not count. */
export function isInOtherCase(key: string, names: ReadonlySet<string>): boolean {
  return mayFold(key) && names.has(foldedKey(key));
}

export function inOtherCase(key: string, path = ""): ApiError {
  return invalidRequest(`${path}${shownKey(key)} is not supported`);
}

/** U+212A, the sign of the kelvin, has a lower case of its own: k. */
function foldedKey(key: string): string {
  return mayFold(key) ? key.toLowerCase().replaceAll("\u017f", "s") : key;
}
