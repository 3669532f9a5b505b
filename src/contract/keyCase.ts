import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { invalidRequest, type ApiError } from "./errors.ts";
import { shownKey } from "./validationMessage.ts";

/** The top-level fields of both interfaces that the gateway checks, uses for a decision or overwrites. */
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
 * The only characters whose simple case folding is a lower-case ASCII letter. U+017F folds to s, U+212A to k:
 * https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt
 */
const FOLDS_TO_ASCII = /[A-Z\u017f\u212a]/;

/**
 * Throws ApiError 400 for a top-level field that equals a known or refused field only when case is ignored. Servers
 * written in Go match keys so, and the last match wins (https://pkg.go.dev/encoding/json#Unmarshal): they would read
 * another value than the one that was checked.
 */
export function refuseFieldsInOtherCase(body: JsonFields, refusedFields: readonly string[]): void {
  for (const key of Object.keys(body)) {
    if (KNOWN_FIELDS.has(key) || refusedFields.includes(key)) continue;
    const folded = foldCase(key);
    const isRefused = refusedFields.some((name) => foldCase(name) === folded);
    if (KNOWN_FIELDS.has(folded) || isRefused) throw unsupportedKey(key);
  }
}

/** The same for the keys of a value inside the body, if it is an object. `names` are in lower case. `path` ends with a dot. */
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

/** The same for `prompt_cache_options`, in both interfaces. */
export function refuseCacheOptionsInOtherCase(options: unknown): void {
  refuseKeysInOtherCase(options, CACHE_OPTIONS, () => "prompt_cache_options.");
}

/** Whether case folding can change the key. False for most keys. */
export function mayFold(key: string): boolean {
  return FOLDS_TO_ASCII.test(key);
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
