import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { walk } from "../lib/walk.ts";

/** How much a model reads: UTF-8 bytes of keys and strings, and parts whose tokens their bytes do not tell. */
export interface TextSize {
  readonly textBytes: number;
  readonly otherParts: number;
}

/** Measures a value of a client's. An object that `isOtherPart` recognises counts as one part, and what is in it not at all. */
export function measureText(
  value: unknown,
  isOtherPart: (object: JsonFields) => boolean = () => false,
): TextSize {
  let textBytes = 0;
  let otherParts = 0;
  walk(value, (found, key) => {
    if (key !== undefined) textBytes += Buffer.byteLength(key);
    if (typeof found === "string") textBytes += Buffer.byteLength(found);
    if (!isJsonObject(found) || !isOtherPart(found)) return typeof found === "object";
    otherParts += 1;
    return false;
  });
  return { textBytes, otherParts };
}
