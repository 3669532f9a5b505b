const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** An object with more keys than this, or with a longer or an escaped key, is watched with a Set. */
const PLAIN_KEYS_MAX = 16;
const PLAIN_KEY_CHARACTERS_MAX = 32;

/** A call of indexOf costs as much as so many characters that are walked: between quotes this close it does not pay. */
const CLOSE_CHARACTERS_MAX = 8;
/** Escaped quotes that close to one another in a row, behind which the text is walked. */
const CLOSE_QUOTES_MAX = 8;

/** One member of the top-level object. Offsets are UTF-16 units of the text; the ends are exclusive. */
export interface Member {
  /** The key after unescaping. */
  readonly key: string;
  /** Where the key's opening quote stands. */
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** Where things stand in the text of a JSON object. `duplicateKey` is the first key found twice in one object, at any depth. */
export interface JsonObjectText {
  readonly text: string;
  /** The text in UTF-8, where it came so. */
  readonly bytes?: Uint8Array | undefined;
  /** The top-level members in the order of the text. Incomplete when there is a `duplicateKey`. */
  readonly members: readonly Member[];
  readonly duplicateKey: string | undefined;
}

/**
 * Finds the top-level members and the first key that stands twice in any object, in one pass.
 * It never recurses, and takes time and memory linear in the text. `text` must have been accepted by JSON.parse and
 * hold an object: for other text the answer means nothing, and an Error may be thrown. `bytes` is its UTF-8, if at hand.
 *
 * In valid JSON a string before a colon is a key of the innermost open object, so arrays need not be followed at all.
 */
export function scanObject(text: string, bytes?: Uint8Array): JsonObjectText {
  const members: { -readonly [Field in keyof Member]: Member[Field] }[] = [];
  let last: (typeof members)[number] | undefined;
  const open = new OpenObjects(text);
  for (let at = text.indexOf("{"); at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      // Short strings are walked and hashed here: a call of indexOf costs more, and most of them are keys.
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

/** Where a value stands in a text, in UTF-16 units; the end is exclusive. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Where the items of an array stand that are objects or arrays themselves. `text` must have been accepted by JSON.parse
 * and hold an array. It never recurses, and takes time linear in the text.
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

/** The members of a JSON object of which nothing more is known. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** True for what JSON calls an object: neither an array nor null. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The members of what JSON calls an object; of anything else none. */
export function fieldsOf(value: unknown): JsonFields {
  return isJsonObject(value) ? value : {};
}

/**
 * True for a value nested deeper than so many levels. Bun 1.4.5 takes seconds to write, or to refuse, the JSON of
 * 30,000 levels: what a stranger gave is asked this before it is written.
 */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeperThan(item, levels - 1));
  for (const name in value) {
    if (isDeeperThan((value as Record<string, unknown>)[name], levels - 1)) return true;
  }
  return false;
}

/** The raw text of a top-level member's value, or undefined where the object has no such key. */
export function rawValue(object: JsonObjectText, key: string): string | undefined {
  const member = object.members.find((member) => member.key === key);
  return member === undefined ? undefined : object.text.slice(member.valueStart, member.valueEnd);
}

/** The keys of the objects that are open at one point of the text, as spans: an object with few keys allocates nothing. */
class OpenObjects {
  depth = 0;
  readonly #text: string;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #hashes: number[] = [];
  /** How much of the lists above is in use. They are never cut, which would cost more than the scan itself. */
  #count = 0;
  /** By depth, the index in those lists of the object's first key. */
  readonly #firsts: number[] = [0];
  /** By depth, the keys of the objects that outgrew the lists. */
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

  /** Adds a key to the innermost object; true when it stood there already. `hash` is undefined for a long or escaped key. */
  addKey(start: number, end: number, hash: number | undefined): boolean {
    const large = this.#large.size > 0 ? this.#large.get(this.depth) : undefined;
    if (large !== undefined) return this.#addToSet(large, start, end);
    const first = this.#firsts[this.depth] ?? 0;
    const count = this.#count;
    if (hash === undefined || count - first >= PLAIN_KEYS_MAX) {
      return this.#addToSet(this.#outgrow(first), start, end);
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

  #outgrow(first: number): Set<string> {
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

/** Where the value ends that stands before the next key, or before the closing brace, at `at`. */
function valueEndBefore(text: string, at: number): number {
  const end = skipSpaceBack(text, at);
  return text.charCodeAt(end - 1) === COMMA ? skipSpaceBack(text, end - 1) : end;
}

/** Where the string that opens at `open` closes: at the first quote behind an even number of backslashes; -1 for none. */
export function closingQuote(text: string, open: number): number {
  let row = 0;
  let last = open;
  let quote = text.indexOf('"', open + 1);
  while (quote >= 0 && isEscaped(text, quote)) {
    row = quote - last <= CLOSE_CHARACTERS_MAX ? row + 1 : 0;
    last = quote;
    // So many close together may be a whole body of nothing else.
    quote = text.indexOf('"', row < CLOSE_QUOTES_MAX ? quote + 1 : behindEscapes(text, quote + 1));
  }
  return quote;
}

/** Where no escape is close any more, or the first quote that is none. */
function behindEscapes(text: string, from: number): number {
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

/** True behind an odd number of backslashes: what stands at `at` is then part of an escape. */
export function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

/** Where the next character stands that is not white space; the text's end where there is none. */
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
 * The text of a member's value in the JSON object that `text` is; undefined where it has none of that name, the last of
 * several. For what is too costly to be parsed: it keeps no names, never recurses, and takes time linear in the text.
 * Of what is no JSON it says anything.
 */
export function memberText(text: string, name: string): string | undefined {
  let found: string | undefined;
  let depth = 0;
  /** Where the value of the member stands, as long as its end is not found. */
  let start: number | undefined;
  const end = (at: number): void => {
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
        if (depth === 1) end(at);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        if (depth === 0) end(at);
    }
  }
  return found;
}

/**
 * Visits a JSON value and what is in it, at any depth and in no order: members with their key, items and the value
 * itself without one. `context` says whether to go on into what it was given. Strangers choose how deep they nest: the
 * stack is our own.
 */
export function walk(
  value: unknown,
  context: (value: unknown, key: string | undefined) => boolean,
): void {
  const open: unknown[] = context(value, undefined) ? [value] : [];
  while (open.length > 0) {
    const next = open.pop();
    if (Array.isArray(next)) {
      for (const item of next as unknown[]) if (context(item, undefined)) open.push(item);
    } else if (isJsonObject(next)) {
      // Three times as fast as its entries would be.
      for (const key in next) if (context(next[key], key)) open.push(next[key]);
    }
  }
}
