import { BYTES_PER_OTHER_PART } from "../../billing/estimate.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { walk } from "../../lib/walk.ts";

/** What stands under these says how an answer is put together, whatever the shape that they stand in. */
const ENVELOPE_KEYS: ReadonlySet<string> = new Set([
  "role",
  "id",
  "type",
  "index",
  "object",
  "status",
  "call_id",
  "item_id",
  // A message's thoughts once more, signed, for the provider that they came from; their text is in the reasoning.
  "thinking_blocks",
  // What the text cites: a search brought it in.
  "annotations",
  // The signatures of thoughts, in which Google's interface gives them.
  "extra_content",
]);

/** Under each of these a provider may give its thoughts, and some servers give the same ones under two. */
const THOUGHT_FIELDS: ReadonlySet<string> = new Set([
  "reasoning_content",
  "reasoning",
  "reasoning_details",
]);

/**
 * Beside these a list of thoughts has their format, and what is encrypted of them, which is no text:
 * https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#reasoning_details-array-structure
 */
const THOUGHT_ENVELOPE_KEYS: ReadonlySet<string> = ENVELOPE_KEYS.union(
  new Set(["format", "signature", "data"]),
);

/** Where the items of a response have what was generated. All else names, numbers or places it. */
const SPOKEN_FIELDS: ReadonlySet<string> = new Set([
  "text",
  "refusal",
  "arguments",
  "input",
  "code",
  "transcript",
]);

/**
 * UTF-8 bytes of what the model generated of a message or a delta: text, reasoning, refusals, the names and
 * arguments of calls. Ids, indexes and the like are not counted: no model made them, and in a stream they are twenty
 * times as long as the text. Sound counts by its transcript, and a picture as a part of a prompt that is no text: the
 * bytes of either tell nothing of tokens.
 */
export function messageBytes(said: JsonFields): number {
  let bytes = 0;
  for (const name in said) {
    const value = said[name];
    if (ENVELOPE_KEYS.has(name) || THOUGHT_FIELDS.has(name)) continue;
    // Most of what is said is one text, for which nothing need be walked.
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (name === "audio" && isJsonObject(value)) bytes += transcriptBytes(value);
    else if (name === "images" && Array.isArray(value))
      bytes += value.length * BYTES_PER_OTHER_PART;
    else bytes += stringBytes(value, ENVELOPE_KEYS);
  }
  return bytes + thoughtBytes(said);
}

/** The part of that which is thoughts: the same ones under another name are counted once. */
export function thoughtBytes(said: JsonFields): number {
  let bytes = 0;
  for (const name of THOUGHT_FIELDS) {
    const value = said[name];
    if (value) bytes = Math.max(bytes, stringBytes(value, THOUGHT_ENVELOPE_KEYS));
  }
  return bytes;
}

/**
 * UTF-8 bytes of what the output of a response says: texts, reasoning, refusals, calls of tools. They are
 * the ones that come as deltas in a stream, so both forms of an answer are estimated alike.
 */
export function outputBytes(output: unknown): number {
  let bytes = 0;
  walk(output, (found, name) => {
    const isSpoken = typeof found === "string" && name !== undefined && SPOKEN_FIELDS.has(name);
    if (isSpoken) bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}

function transcriptBytes({ transcript }: JsonFields): number {
  return typeof transcript === "string" ? Buffer.byteLength(transcript) : 0;
}

/** UTF-8 bytes of the strings in a value of any depth, without keys, and without what stands under the `envelopeKeys`. */
function stringBytes(value: unknown, envelopeKeys: ReadonlySet<string>): number {
  let bytes = 0;
  walk(value, (found, key) => {
    if (key !== undefined && envelopeKeys.has(key)) return false;
    if (typeof found === "string") bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}
