const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** Between quotes this close, a loop over the characters is faster than indexOf. */
const CLOSE_CHARACTERS_MAX = 8;
/** After this many close escaped quotes in a row, the loop is used. */
const CLOSE_QUOTES_MAX = 8;

/** One member of the top-level object. Offsets are those of the bytes; the ends are exclusive. */
export interface Member {
  /** The key after unescaping. */
  readonly key: string;
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** The text of a JSON object with the positions of its members. */
export interface JsonObjectText {
  /** The text in UTF-8. */
  readonly bytes: Uint8Array;
  /** The text itself, if it is short and in ASCII: a string is cheaper to cut than bytes are to decode. */
  readonly ascii: string | undefined;
  /** The top-level members in text order. Incomplete if there is a `duplicateKey`. */
  readonly members: readonly Member[];
  /** The first key that occurs twice in one object, at any depth. */
  readonly duplicateKey: string | undefined;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** The text of valid UTF-8. Keeps a byte order mark, so that the JSON parser refuses it. */
export function decodeUtf8(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

/** The same bytes as a Buffer, which can be searched for a text. */
export function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** The text from one offset to another; all of it without them. */
export function textOf(
  { bytes, ascii }: Pick<JsonObjectText, "bytes" | "ascii">,
  start = 0,
  end = bytes.length,
): string {
  return ascii?.slice(start, end) ?? decodeUtf8(bytes.subarray(start, end));
}

/** A range of a text in UTF-16 units. The end is exclusive. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The ranges of the items of an array that are objects or arrays. JSON.parse must have accepted `text` as an array.
 * Without recursion, in linear time.
 */
export function itemRanges(text: string): readonly TextRange[] {
  const items: TextRange[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = closingQuote(text, at);
        break;
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        depth++;
        if (depth === 2) start = at;
        break;
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        if (depth === 2) items.push({ start, end: at + 1 });
        depth--;
    }
  }
  return items;
}

/** The members of a JSON object that is not checked. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** Whether a value is a JSON object: not an array and not null. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value is present. Null counts as absent, as in the interfaces of OpenAI and Anthropic. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** A JSON object itself; an empty object for any other value. */
export function fieldsOf(value: unknown): JsonFields {
  return isJsonObject(value) ? value : {};
}

/**
 * Whether a value is nested deeper than `levels`. JSON.stringify of 30,000 levels takes seconds in Bun 1.4.5, so
 * untrusted values are checked before they are written.
 */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    for (const item of value) if (isDeeperThan(item, levels - 1)) return true;
    return false;
  }
  for (const name in value) {
    if (isDeeperThan((value as Record<string, unknown>)[name], levels - 1)) return true;
  }
  return false;
}

/** The text of a top-level member's value; undefined if there is no such key. */
export function rawValue(object: JsonObjectText, key: string): string | undefined {
  const member = object.members.find((member) => member.key === key);
  return member && textOf(object, member.valueStart, member.valueEnd);
}

/** The closing quote of the string that opens at `open`; -1 if there is none. */
export function closingQuote(text: string, open: number): number {
  let row = 0;
  let last = open;
  let quote = text.indexOf('"', open + 1);
  while (quote >= 0 && isEscaped(text, quote)) {
    row = quote - last <= CLOSE_CHARACTERS_MAX ? row + 1 : 0;
    last = quote;
    // A hostile body may consist of escaped quotes only.
    quote = text.indexOf('"', row < CLOSE_QUOTES_MAX ? quote + 1 : skipEscapes(text, quote + 1));
  }
  return quote;
}

/** The first index with no escape close before it, or the first quote that is not escaped. */
function skipEscapes(text: string, from: number): number {
  let at = from;
  for (let end = at + CLOSE_CHARACTERS_MAX; at < end; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    if (unit === BACKSLASH) {
      at++;
      end = at + CLOSE_CHARACTERS_MAX;
    }
  }
  return at;
}

/** Whether an odd number of backslashes precedes `at`. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

/** The next index without white space, or the text's length. */
export function skipSpace(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

/**
 * The text of the last top-level member with this name; undefined if there is none. For JSON that is too costly to
 * parse: it stores no names, has no recursion and takes linear time. For invalid JSON the result is meaningless.
 */
export function memberText(text: string, name: string): string | undefined {
  let found: string | undefined;
  let depth = 0;
  /** The start of the member's value until its end is found. */
  let start: number | undefined;
  const endValue = (at: number): void => {
    if (start !== undefined) found = text.slice(start, at);
    start = undefined;
  };
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const close = closingQuote(text, at);
        if (close < 0) return found;
        const next = skipSpace(text, close + 1);
        const isKey = depth === 1 && text.charCodeAt(next) === COLON;
        if (isKey && text.slice(at + 1, close) === name) start = next + 1;
        at = close;
        break;
      }
      case COMMA:
        if (depth === 1) endValue(at);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        if (depth === 0) endValue(at);
    }
  }
  return found;
}

/**
 * Visits a JSON value and everything in it, in no fixed order: members with their key, items and the value itself
 * without a key. `shouldDescend` returns whether to descend. The stack is explicit because clients choose the nesting depth.
 */
export function walk(
  value: unknown,
  shouldDescend: (value: unknown, key: string | undefined) => boolean,
): void {
  const unvisited: unknown[] = shouldDescend(value, undefined) ? [value] : [];
  while (unvisited.length > 0) {
    const next = unvisited.pop();
    if (Array.isArray(next)) {
      for (const item of next as unknown[])
        if (shouldDescend(item, undefined)) unvisited.push(item);
    } else if (isJsonObject(next)) {
      // Three times as fast as Object.entries.
      for (const key in next) if (shouldDescend(next[key], key)) unvisited.push(next[key]);
    }
  }
}
