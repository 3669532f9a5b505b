import { isAscii } from "node:buffer";
import { decodeUtf8, textOf, type JsonObjectText, type Member } from "./json.ts";
import { CUT_BYTES_MIN, Outline, StringReader } from "./outline.ts";
import {
  CHEAP_CHARACTERS_MAX,
  fingerprintSecret,
  isCounted,
  costOfOneText,
  type JsonCost,
  KEY_CHARACTERS_MAX,
  mix,
  NEAR_CHARACTERS,
  SHORT_CHARACTERS_MAX,
} from "./untrustedJson.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** An object with more keys, or with a longer or an escaped key, keeps its keys in a Set. */
const PLAIN_KEYS_MAX = 16;

/** A shorter text is kept as a string too, and has no outline: it costs less to parse it whole. */
const LONG_BYTES_MIN = 16_384;

/** The most UTF-8 bytes of a UTF-16 unit. */
const BYTES_PER_UNIT = 3;

/** A JSON object that was parsed and scanned. */
export interface ParsedObject {
  /** The value, or its outline: the same, but long strings of the outlined members are cut (`outline.ts`). */
  readonly value: unknown;
  readonly isOutline: boolean;
  readonly object: JsonObjectText;
  /** A string escapes half a surrogate pair alone (`\ud800`). That is valid JSON, but not valid Unicode. */
  readonly hasLoneSurrogate: boolean;
}

/**
 * Parses untrusted text, and scans it in the same pass that counts what it costs to parse. Bytes must be UTF-8. Throws
 * SyntaxError and CostlyJsonError like `parseUntrusted`. If `value` is not an object, `object` is meaningless. In a long text
 * the long strings of the members with the names `outlined` are checked, but not built.
 */
export function parseObject(
  source: string | Uint8Array,
  outlined: ReadonlySet<string> = new Set(),
): ParsedObject {
  const text = sourceOf(source);
  const { bytes } = text;
  const cost = isCheap(text) ? undefined : costOfOneText();
  const isOutline = outlined.size > 0 && bytes.length >= LONG_BYTES_MIN;
  const outline = isOutline ? new Outline(bytes, outlined) : undefined;
  const strings = new StringReader(bytes);
  const object = scan(text, strings, { cost, outline });
  const value: unknown = JSON.parse(outline?.text() ?? textOf(text));
  if (!strings.areValid || outline?.isValid === false) throw new SyntaxError();
  const { hasLoneSurrogate } = strings;
  return { value, isOutline, object, hasLoneSurrogate };
}

/** The whole value of a text that was parsed before. */
export function wholeValue(object: JsonObjectText): Record<string, unknown> {
  return JSON.parse(textOf(object)) as Record<string, unknown>;
}

/** Finds the top-level members and the first duplicate key of a text that JSON.parse accepts as an object. */
export function scanObject(text: string): JsonObjectText {
  const source = sourceOf(text);
  return scan(source, new StringReader(source.bytes), {});
}

type Source = Pick<JsonObjectText, "bytes" | "ascii">;

function sourceOf(source: string | Uint8Array): Source {
  if (typeof source === "string") {
    const bytes = Buffer.from(source);
    return { bytes, ascii: bytes.length === source.length ? source : undefined };
  }
  const isKept = source.length < LONG_BYTES_MIN && isAscii(source);
  return { bytes: source, ascii: isKept ? decodeUtf8(source) : undefined };
}

function isCheap(source: Source): boolean {
  const { length } = source.bytes;
  if (length <= CHEAP_CHARACTERS_MAX) return true;
  const mayBe = source.ascii === undefined && length <= BYTES_PER_UNIT * CHEAP_CHARACTERS_MAX;
  return mayBe && textOf(source).length <= CHEAP_CHARACTERS_MAX;
}

/**
 * Finds the top-level members and the first duplicate key in one pass, without recursion, in linear time and memory.
 * For text that JSON.parse does not accept as an object the result is meaningless. Adds the text to `cost`, which throws
 * CostlyJsonError over a limit, and long strings to `outline`.
 *
 * In valid JSON a string before a colon is a key of the innermost open object, so arrays need no tracking.
 */
function scan(
  source: Source,
  strings: StringReader,
  { cost, outline }: { cost?: JsonCost | undefined; outline?: Outline | undefined },
): JsonObjectText {
  const { bytes } = source;
  const members: { -readonly [Field in keyof Member]: Member[Field] }[] = [];
  let last: (typeof members)[number] | undefined;
  let duplicateKey: string | undefined;
  const open = new OpenObjects(source);
  const { seed, factor } = fingerprintSecret();
  let containers = 0;
  let separators = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      // Most strings are short. For them a loop that also hashes is faster than indexOf.
      const start = at + 1;
      let end = start;
      let fingerprint = seed;
      for (const near = Math.min(start + NEAR_CHARACTERS, bytes.length); end < near; end++) {
        const byte = bytes[end] ?? 0;
        if (byte === QUOTE || byte === BACKSLASH) break;
        fingerprint = mix(fingerprint, byte, factor);
      }
      const isPlain = bytes[end] === QUOTE;
      const hashed = end;
      if (!isPlain) end = strings.read(end);
      if (end >= bytes.length) break;
      const next = skipSpace(bytes, end + 1);
      const isKey = bytes[next] === COLON;
      if (cost !== undefined) {
        const characters = isPlain ? end - start : charactersIn(source, start, end, isKey);
        if (isCounted(characters, isKey)) {
          cost.checkLength(characters);
          cost.addBytes(bytes, start, end, hashed, fingerprint);
        }
      }
      if (!isKey) {
        if (end - start >= CUT_BYTES_MIN) outline?.cut(start, end, strings);
      } else if (duplicateKey === undefined) {
        if (open.addKey(start, end, isPlain ? fingerprint : undefined)) {
          duplicateKey = keyText(source, start, end);
        } else if (open.depth === 1) {
          if (last !== undefined) last.valueEnd = valueEndBefore(bytes, at);
          const valueStart = skipSpace(bytes, next + 1);
          const key = keyText(source, start, end);
          last = { key, keyStart: at, valueStart, valueEnd: valueStart };
          members.push(last);
          outline?.enter(key);
        }
      }
      at = next - 1;
    } else if (byte === COMMA || byte === COLON) {
      separators += 1;
    } else if (byte === OPEN_OBJECT) {
      containers += 1;
      cost?.checkContainers(containers);
      open.enter();
    } else if (byte === CLOSE_OBJECT) {
      open.leave();
      if (open.depth === 0 && last !== undefined) last.valueEnd = valueEndBefore(bytes, at);
    } else if (byte === OPEN_ARRAY) {
      containers += 1;
      cost?.checkContainers(containers);
    }
  }
  cost?.addParts(containers, separators);
  return { ...source, members, duplicateKey };
}

/** The UTF-16 units of a string as it is written, where they decide; otherwise its bytes. */
function charactersIn(source: Source, start: number, end: number, isKey: boolean): number {
  const bytes = end - start;
  const most = BYTES_PER_UNIT * (isKey ? KEY_CHARACTERS_MAX : SHORT_CHARACTERS_MAX);
  const isClear = source.ascii !== undefined || bytes <= SHORT_CHARACTERS_MAX || bytes > most;
  return isClear ? bytes : textOf(source, start, end).length;
}

/** The keys of all open objects. Keys are ranges of the text, so that an object with few keys allocates nothing. */
class OpenObjects {
  depth = 0;
  readonly #source: Source;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #hashes: number[] = [];
  /** The used length of the lists above. Truncating them costs more than the scan. */
  #count = 0;
  /** By depth: the index of the object's first key in the lists. */
  readonly #firsts: number[] = [0];
  /** By depth: the keys of an object that needs a Set. */
  readonly #large = new Map<number, Set<string>>();

  constructor(source: Source) {
    this.#source = source;
  }

  enter(): void {
    this.depth++;
    this.#firsts[this.depth] = this.#count;
  }

  leave(): void {
    // Reached only in invalid JSON.
    if (this.depth === 0) return;
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
    const { bytes } = this.#source;
    const from = this.#starts[index] ?? 0;
    if ((this.#ends[index] ?? 0) - from !== end - start) return false;
    for (let at = start; at < end; at++) if (bytes[at] !== bytes[from + at - start]) return false;
    return true;
  }

  #moveToSet(first: number): Set<string> {
    const keys = new Set<string>();
    for (let index = first; index < this.#count; index++) {
      keys.add(textOf(this.#source, this.#starts[index], this.#ends[index]));
    }
    this.#count = first;
    this.#large.set(this.depth, keys);
    return keys;
  }

  #addToSet(keys: Set<string>, start: number, end: number): boolean {
    const count = keys.size;
    return keys.add(keyText(this.#source, start, end)).size === count;
  }
}

function keyText(source: Source, start: number, end: number): string {
  const raw = textOf(source, start, end);
  if (!raw.includes("\\")) return raw;
  try {
    return String(JSON.parse(`"${raw}"`));
  } catch {
    // The whole text is invalid then.
    return raw;
  }
}

/** The end of the value before the next key or the closing brace at `at`. */
function valueEndBefore(bytes: Uint8Array, at: number): number {
  const end = skipSpaceBack(bytes, at);
  return bytes[end - 1] === COMMA ? skipSpaceBack(bytes, end - 1) : end;
}

/** The next offset without white space, or the length. */
function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

function skipSpaceBack(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isSpace(bytes[at - 1])) at--;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
