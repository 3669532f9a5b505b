import { type JsonFields, isJsonObject, walk } from "../lib/json.ts";

/** The size of a prompt: UTF-8 bytes of keys and strings, and the count of parts that are not text. */
export interface TextSize {
  readonly textBytes: number;
  readonly nonTextParts: number;
}

/** Measures a value. An object that `isNonTextPart` accepts counts as one part; its members do not count. */
export function measureText(
  value: unknown,
  isNonTextPart: (object: JsonFields) => boolean = () => false,
): TextSize {
  let textBytes = 0;
  let nonTextParts = 0;
  walk(value, (found, key) => {
    if (key !== undefined) textBytes += Buffer.byteLength(key);
    if (typeof found === "string") textBytes += Buffer.byteLength(found);
    if (!isJsonObject(found) || !isNonTextPart(found)) return typeof found === "object";
    nonTextParts += 1;
    return false;
  });
  return { textBytes, nonTextParts };
}
