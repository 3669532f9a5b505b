import { itemRanges, textOf, type JsonObjectText, type TextRange } from "./json.ts";
import { scanObject } from "./jsonObject.ts";

/**
 * Changes of a JSON object. `set` has the new JSON text for each key: it replaces the value, or adds the member at the
 * end. A key that is both set and removed is set.
 */
export interface Edits {
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/** New text, or a range of the object's own bytes. */
type Part = string | TextRange;

const OPEN_OBJECT = 0x7b;

/** The text with these changes. Everything else keeps its bytes. */
export function splice(object: JsonObjectText, edits: Edits): string {
  let result = "";
  for (const part of partsOf(object, edits)) {
    result += typeof part === "string" ? part : textOf(object, part.start, part.end);
  }
  return result;
}

/** Like `splice`, for a text that is sent in UTF-8. A short text in ASCII stays a text; the unchanged parts of others are views of their
 * bytes. */
export function spliceBytes(object: JsonObjectText, edits: Edits): string | readonly Uint8Array[] {
  const { bytes, ascii } = object;
  if (ascii !== undefined) return splice(object, edits);
  return partsOf(object, edits).map((part) =>
    typeof part === "string" ? Buffer.from(part) : bytes.subarray(part.start, part.end),
  );
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
function partsOf({ bytes, members }: JsonObjectText, { set = {}, remove = [] }: Edits): Part[] {
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
    const end = lastEnd ?? bytes.indexOf(OPEN_OBJECT) + 1;
    if (end > copied) parts.push({ start: copied, end });
    parts.push(added);
    copied = end;
  }
  parts.push({ start: copied, end: bytes.length });
  return parts;
}
