import { walk } from "../../lib/walk.ts";

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
