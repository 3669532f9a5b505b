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
    if (ENVELOPE_KEYS.has(name)) continue;
    // Most of what is said is one text, for which nothing need be walked.
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (name === "audio" && isJsonObject(value)) bytes += transcriptBytes(value);
    else if (name === "images" && Array.isArray(value))
      bytes += value.length * BYTES_PER_OTHER_PART;
    else bytes += stringBytes(value);
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

/** UTF-8 bytes of the strings in a value of any depth, without keys, and without what puts the answer together. */
function stringBytes(value: unknown): number {
  let bytes = 0;
  walk(value, (found, key) => {
    if (key !== undefined && ENVELOPE_KEYS.has(key)) return false;
    if (typeof found === "string") bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}
