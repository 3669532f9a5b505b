const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** The keys of an object with more keys, or with a longer or an escaped key, are kept in a Set. */
const PLAIN_KEYS_MAX = 16;
const PLAIN_KEY_CHARACTERS_MAX = 32;

/** Between quotes this close, a loop over the characters is faster than indexOf. */
const CLOSE_CHARACTERS_MAX = 8;
/** After this many close escaped quotes in a row, the loop is used. */
const CLOSE_QUOTES_MAX = 8;

/** One member of the top-level object. Offsets are UTF-16 units of the text; the ends are exclusive. */
export interface Member {
  /** The key after unescaping. */
  readonly key: string;
  /** The key's opening quote. */
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** The text of a JSON object with the positions of its members. */
export interface JsonObjectText {
  readonly text: string;
  /** The text in UTF-8, if at hand. */
  readonly bytes?: Uint8Array | undefined;
  /** The top-level members in text order. Incomplete if there is a `duplicateKey`. */
  readonly members: readonly Member[];
  /** The first key that occurs twice in one object, at any depth. */
  readonly duplicateKey: string | undefined;
}

/**
 * Finds the top-level members and the first duplicate key in one pass, without recursion, in linear time and memory.
 * JSON.parse must have accepted `text` as an object: for other text the result is meaningless, or an Error is thrown.
 *
 * In valid JSON a string before a colon is a key of the innermost open object, so arrays need no tracking.
 */
export function scanObject(text: string, bytes?: Uint8Array): JsonObjectText {
  const members: { -readonly [Field in keyof Member]: Member[Field] }[] = [];
  let last: (typeof members)[number] | undefined;
  const open = new OpenObjects(text);
  for (let at = text.indexOf("{"); at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      // Most strings are short keys. For them a loop that also hashes is faster than indexOf.
      let end = at + 1;
      let hash = 0;
      const near = end + PLAIN_KEY_CHARACTERS_MAX;
      for (; end < near; end++) {
        const unit = text.charCodeAt(end);
        if (unit === QUOTE || unit === BACKSLASH) break;
        hash = (Math.imul(hash, 31) + unit) | 0;
      }
      const plain = text.charCodeAt(end) === QUOTE;
      if (!plain) end = closingQuote(text, at);
      if (end < 0) throw new Error("the text is not valid JSON: a string does not end");
      const next = skipSpace(text, end + 1);
      if (text.charCodeAt(next) !== COLON) {
        at = next - 1;
        continue;
      }
      if (open.addKey(at + 1, end, plain ? hash : undefined)) {
        return { text, bytes, members, duplicateKey: keyText(text, at + 1, end) };
      }
      if (open.depth === 1) {
        if (last !== undefined) last.valueEnd = valueEndBefore(text, at);
        const valueStart = skipSpace(text, next + 1);
        const key = keyText(text, at + 1, end);
        last = { key, keyStart: at, valueStart, valueEnd: valueStart };
        members.push(last);
      }
      at = next;
    } else if (unit === OPEN_OBJECT) {
      open.enter();
    } else if (unit === CLOSE_OBJECT) {
      open.leave();
      if (open.depth === 0) {
        if (last !== undefined) last.valueEnd = valueEndBefore(text, at);
        break;
      }
    }
  }
  return { text, bytes, members, duplicateKey: undefined };
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
  return member === undefined ? undefined : object.text.slice(member.valueStart, member.valueEnd);
}

/** The keys of all open objects. Keys are ranges of the text, so that an object with few keys allocates nothing. */
class OpenObjects {
  depth = 0;
  readonly #text: string;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #hashes: number[] = [];
  /** The used length of the lists above. Truncating them costs more than the scan. */
  #count = 0;
  /** By depth: the index of the object's first key in the lists. */
  readonly #firsts: number[] = [0];
  /** By depth: the keys of an object that needs a Set. */
  readonly #large = new Map<number, Set<string>>();

  constructor(text: string) {
    this.#text = text;
  }

  enter(): void {
    this.depth++;
    this.#firsts[this.depth] = this.#count;
  }

  leave(): void {
    if (this.#large.size > 0) this.#large.delete(this.depth);
    this.#count = this.#firsts[this.depth] ?? 0;
    this.depth--;
  }

  /** Adds a key to the innermost object. Returns true for a duplicate. `hash` is undefined for a long or escaped key. */
  addKey(start: number, end: number, hash: number | undefined): boolean {
    const large = this.#large.size > 0 ? this.#large.get(this.depth) : undefined;
    if (large !== undefined) return this.#addToSet(large, start, end);
    const first = this.#firsts[this.depth] ?? 0;
    const count = this.#count;
    if (hash === undefined || count - first >= PLAIN_KEYS_MAX) {
      return this.#addToSet(this.#moveToSet(first), start, end);
    }
    const hashes = this.#hashes;
    for (let index = first; index < count; index++) {
      if (hashes[index] === hash && this.#isSame(index, start, end)) return true;
    }
    this.#starts[count] = start;
    this.#ends[count] = end;
    hashes[count] = hash;
    this.#count = count + 1;
    return false;
  }

  #isSame(index: number, start: number, end: number): boolean {
    const text = this.#text;
    return text.slice(this.#starts[index], this.#ends[index]) === text.slice(start, end);
  }

  #moveToSet(first: number): Set<string> {
    const keys = new Set<string>();
    for (let index = first; index < this.#count; index++) {
      keys.add(this.#text.slice(this.#starts[index], this.#ends[index]));
    }
    this.#count = first;
    this.#large.set(this.depth, keys);
    return keys;
  }

  #addToSet(keys: Set<string>, start: number, end: number): boolean {
    const count = keys.size;
    return keys.add(keyText(this.#text, start, end)).size === count;
  }
}

function keyText(text: string, start: number, end: number): string {
  const raw = text.slice(start, end);
  return raw.includes("\\") ? String(JSON.parse(`"${raw}"`)) : raw;
}

/** The end of the value before the next key or the closing brace at `at`. */
function valueEndBefore(text: string, at: number): number {
  const end = skipSpaceBack(text, at);
  return text.charCodeAt(end - 1) === COMMA ? skipSpaceBack(text, end - 1) : end;
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
export function isEscaped(text: string, at: number): boolean {
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

function skipSpaceBack(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at - 1))) at--;
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
