import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { invalidRequest, type ApiError } from "./errors.ts";
import { shownKey } from "./validationMessage.ts";

/** The top-level fields of the interfaces that the gateway checks, uses for a decision or overwrites. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set([
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
  "max_tool_calls",
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

const UPPER_A = 0x41;
const UPPER_Z = 0x5a;
const LONG_S = 0x17f;
const KELVIN_SIGN = 0x212a;

/**
 * Throws ApiError 400 for a top-level field that equals a known or refused field only when case is ignored. Servers
 * written in Go match keys so, and the last match wins (https://pkg.go.dev/encoding/json#Unmarshal): they would read
 * another value than the one that was checked.
 */
export function refuseFieldsInOtherCase(body: JsonFields, refusedFields: readonly string[]): void {
  for (const key in body) {
    if (KNOWN_FIELDS.has(key) || refusedFields.includes(key)) continue;
    const folded = foldCase(key);
    if (KNOWN_FIELDS.has(folded) || foldedNames(refusedFields).has(folded))
      throw unsupportedKey(key);
  }
}

const foldedLists = new WeakMap<readonly string[], ReadonlySet<string>>();

/** The names of a list with their case folded, made once for each list. */
function foldedNames(names: readonly string[]): ReadonlySet<string> {
  const known = foldedLists.get(names);
  if (known) return known;
  const folded = new Set(names.map(foldCase));
  foldedLists.set(names, folded);
  return folded;
}

/**
 * Throws ApiError 400 for such a key of a value inside the body, if the value is an object. `names` are in lower case.
 * `path` ends with a dot.
 */
export function refuseKeysInOtherCase(
  value: unknown,
  names: ReadonlySet<string>,
  path: () => string = () => "",
): void {
  if (!isJsonObject(value)) return;
  for (const key in value) if (isInOtherCase(key, names)) throw unsupportedKey(key, path());
}

/** The one key of `prompt_cache_options` that names a stored object. */
export const COMPARISON_RESPONSE_FIELD = "comparison_response_id";
const CACHE_OPTIONS: ReadonlySet<string> = new Set([COMPARISON_RESPONSE_FIELD]);

/** Throws ApiError 400 for such a key of `prompt_cache_options`, in the interfaces of OpenAI. */
export function refuseCacheOptionsInOtherCase(options: unknown): void {
  refuseKeysInOtherCase(options, CACHE_OPTIONS, () => "prompt_cache_options.");
}

/**
 * Whether case folding can change the key to lower-case ASCII letters. False for most keys. Besides A to Z only two
 * characters fold to one: U+017F to s, U+212A to k (https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt).
 */
export function mayFold(key: string): boolean {
  // For most keys the loop takes half the time of a regular expression.
  for (let at = 0; at < key.length; at++) {
    const unit = key.charCodeAt(at);
    if (unit >= UPPER_A && unit <= UPPER_Z) return true;
    if (unit === LONG_S || unit === KELVIN_SIGN) return true;
  }
  return false;
}

/** Whether the key equals one of these lower-case names only when case is ignored. */
export function isInOtherCase(key: string, names: ReadonlySet<string>): boolean {
  return mayFold(key) && names.has(foldCase(key));
}

export function unsupportedKey(key: string, path = ""): ApiError {
  return invalidRequest(`${path}${shownKey(key)} is not supported`);
}

function foldCase(key: string): string {
  return mayFold(key) ? key.toLowerCase().replaceAll("\u017f", "s") : key;
}
