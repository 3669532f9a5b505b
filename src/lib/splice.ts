import { itemRanges, type JsonObjectText, type TextRange } from "./json.ts";
import { scanObject } from "./jsonObject.ts";

/**
 * Changes of a JSON object. `set` has the new JSON text for each key: it replaces the value, or adds the member at the
 * end. A key that is both set and removed is set.
 */
export interface Edits {
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/** New text, or a range of the object's own text. */
type Part = string | TextRange;

/** A smaller text is cheaper to copy than to split. */
const SPLIT_BYTES_MIN = 65_536;

/** The text with these changes. Everything else keeps its bytes. */
export function splice(object: JsonObjectText, edits: Edits): string {
  const { text } = object;
  let result = "";
  for (const part of partsOf(object, edits)) {
    result += typeof part === "string" ? part : text.slice(part.start, part.end);
  }
  return result;
}

/**
 * Like `splice`, for a text that is sent in UTF-8. If a large text has `bytes`, its unchanged parts are views of them.
 */
export function spliceBytes(object: JsonObjectText, edits: Edits): string | readonly Uint8Array[] {
  const { text, bytes } = object;
  if (bytes === undefined || bytes.length < SPLIT_BYTES_MIN) return splice(object, edits);
  const parts = partsOf(object, edits);
  const offsets = parts.flatMap((part) => (typeof part === "string" ? [] : [part.start, part.end]));
  const byteOffsets = byteOffsetsOf(text, bytes, offsets);
  let taken = 0;
  return parts.map((part) => {
    if (typeof part === "string") return Buffer.from(part);
    taken += 2;
    return bytes.subarray(byteOffsets[taken - 2], byteOffsets[taken - 1]);
  });
}

/** Applies the edits to each object of an array of objects. */
export function spliceEach(array: string, edits: Edits): string {
  let result = "";
  let copied = 0;
  for (const { start, end } of itemRanges(array)) {
    result += array.slice(copied, start) + splice(scanObject(array.slice(start, end)), edits);
    copied = end;
  }
  return result + array.slice(copied);
}

/** There are few edits, so they are compared one by one: a Map costs more than the rest. */
function partsOf({ text, members }: JsonObjectText, { set = {}, remove = [] }: Edits): Part[] {
  const parts: Part[] = [];
  let copied = 0;
  let isAnyKept = false;
  let lastEnd: number | undefined;
  for (const { key, keyStart, valueStart, valueEnd } of members) {
    // After a kept member, a removal begins at the comma. Otherwise it ends at the next key.
    const removedFrom = isAnyKept ? (lastEnd ?? 0) : keyStart;
    if (!isAnyKept && lastEnd !== undefined) copied = keyStart;
    lastEnd = valueEnd;
    if (Object.hasOwn(set, key)) {
      parts.push({ start: copied, end: valueStart }, set[key] ?? "");
      copied = valueEnd;
    } else if (remove.includes(key)) {
      if (removedFrom > copied) parts.push({ start: copied, end: removedFrom });
      copied = valueEnd;
      continue;
    }
    isAnyKept = true;
  }
  let added = "";
  for (const key in set) {
    if (members.some((member) => member.key === key)) continue;
    added += `${isAnyKept || added !== "" ? "," : ""}${JSON.stringify(key)}:${set[key]}`;
  }
  if (added !== "") {
    const end = lastEnd ?? text.indexOf("{") + 1;
    if (end > copied) parts.push({ start: copied, end });
    parts.push(added);
    copied = end;
  }
  parts.push({ start: copied, end: text.length });
  return parts;
}

/**
 * Converts ascending offsets of a text to offsets of its UTF-8 bytes. The text in the widest gap between two offsets is
 * not measured: later offsets are counted from the end.
 */
function byteOffsetsOf(text: string, bytes: Uint8Array, offsets: readonly number[]): number[] {
  // ASCII only.
  if (bytes.length === text.length) return [...offsets];
  const widthBefore = (index: number): number => (offsets[index] ?? 0) - (offsets[index - 1] ?? 0);
  let widest = 0;
  for (const index of offsets.keys()) if (widthBefore(index) > widthBefore(widest)) widest = index;
  const result: number[] = [];
  for (let index = 0, at = 0; index < widest; index += 1) {
    at += Buffer.byteLength(text.slice(offsets[index - 1], offsets[index]));
    result[index] = at;
  }
  for (let index = offsets.length - 1, at = bytes.length; index >= widest; index -= 1) {
    at -= Buffer.byteLength(text.slice(offsets[index], offsets[index + 1]));
    result[index] = at;
  }
  return result;
}
