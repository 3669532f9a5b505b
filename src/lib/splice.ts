import { itemRanges, scanObject, type JsonObjectText, type TextRange } from "./json.ts";

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

/** The same for a text that is sent in UTF-8. If a large text has `bytes`, its unchanged parts are views of them. */
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

function partsOf({ text, members }: JsonObjectText, edits: Edits): Part[] {
  const set = new Map(Object.entries(edits.set ?? {}));
  const remove = new Set(edits.remove);
  const parts: Part[] = [];
  let copied = 0;
  let keptEnd: number | undefined;
  const copyTo = (end: number): void => {
    if (end > copied) parts.push({ start: copied, end });
  };
  for (const [index, member] of members.entries()) {
    const raw = set.get(member.key);
    if (raw === undefined && remove.has(member.key)) {
      // After a kept member, the comma before it is removed too. Otherwise the text up to the next key is removed.
      const before = keptEnd === undefined ? undefined : members[index - 1];
      copyTo(before?.valueEnd ?? member.keyStart);
      const next = before === undefined ? members[index + 1] : undefined;
      copied = next?.keyStart ?? member.valueEnd;
      continue;
    }
    if (raw !== undefined) {
      copyTo(member.valueStart);
      parts.push(raw);
      copied = member.valueEnd;
      set.delete(member.key);
    }
    keptEnd = member.valueEnd;
  }
  if (set.size > 0) {
    const end = members.at(-1)?.valueEnd ?? text.indexOf("{") + 1;
    const added = Array.from(set, ([key, raw]) => `${JSON.stringify(key)}:${raw}`).join(",");
    copyTo(end);
    parts.push((keptEnd === undefined ? "" : ",") + added);
    copied = end;
  }
  copyTo(text.length);
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
