import { isJsonObject } from "../lib/json.ts";

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
 * the ones that come as deltas in a stream, so both forms of an answer are estimated alike. The stack is our
 * own, for nobody bounds how deep a provider nests.
 */
export function spokenTextBytes(output: unknown): number {
  let bytes = 0;
  const left: unknown[] = [output];
  while (left.length > 0) {
    const next = left.pop();
    if (Array.isArray(next)) for (const item of next) left.push(item);
    else if (isJsonObject(next)) {
      for (const [name, value] of Object.entries(next)) {
        if (typeof value !== "string") left.push(value);
        else if (SPOKEN_FIELDS.has(name)) bytes += Buffer.byteLength(value);
      }
    }
  }
  return bytes;
}
