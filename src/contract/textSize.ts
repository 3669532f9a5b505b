import { isJsonObject } from "../lib/json.ts";

/** How much a model reads: UTF-8 bytes of keys and strings, and parts whose tokens their bytes do not tell. */
export interface TextSize {
  readonly textBytes: number;
  readonly otherParts: number;
}

/**
 * Measures a value of a client's. An object that `isOtherPart` recognises counts as one part, and what
 * is in it not at all. Clients choose how deep they nest: the stack is our own.
 */
export function measureText(
  value: unknown,
  isOtherPart: (object: Readonly<Record<string, unknown>>) => boolean = () => false,
): TextSize {
  let textBytes = 0;
  let otherParts = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "string") textBytes += Buffer.byteLength(next);
    else if (Array.isArray(next)) for (const item of next) left.push(item);
    else if (isJsonObject(next)) {
      if (isOtherPart(next)) {
        otherParts += 1;
        continue;
      }
      for (const [key, item] of Object.entries(next)) {
        textBytes += Buffer.byteLength(key);
        left.push(item);
      }
    }
  }
  return { textBytes, otherParts };
}

/**
 * UTF-8 bytes of the strings in a value of any depth, without keys, and without what stands under the
 * keys of `passedOver`.
 */
export function stringBytes(value: unknown, passedOver: ReadonlySet<string>): number {
  let bytes = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "string") bytes += Buffer.byteLength(next);
    else if (Array.isArray(next)) for (const item of next) left.push(item);
    else if (isJsonObject(next)) {
      for (const [key, item] of Object.entries(next)) if (!passedOver.has(key)) left.push(item);
    }
  }
  return bytes;
}
