import {
  closingQuote,
  skipSpace,
  skipSpaceBack,
  type JsonObjectText,
  type Member,
} from "./json.ts";
import {
  CHEAP_CHARACTERS_MAX,
  fingerprintSecret,
  isCounted,
  JsonCost,
  mix,
  NEAR_CHARACTERS,
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

/**
 * Parses untrusted text, and scans it in the same pass that counts what it costs to parse. Throws SyntaxError and
 * CostlyJsonError like `parseUntrusted`. If `value` is not an object, `object` is meaningless.
 */
export function parseObjectText(
  text: string,
  bytes?: Uint8Array,
): { readonly value: unknown; readonly object: JsonObjectText } {
  const cost = text.length > CHEAP_CHARACTERS_MAX ? new JsonCost() : undefined;
  const object = scanObject(text, bytes, cost);
  return { value: JSON.parse(text), object };
}

/**
 * Finds the top-level members and the first duplicate key in one pass, without recursion, in linear time and memory.
 * For text that JSON.parse does not accept as an object the result is meaningless. Adds the text to `cost`, which throws
 * CostlyJsonError over a limit.
 *
 * In valid JSON a string before a colon is a key of the innermost open object, so arrays need no tracking.
 */
export function scanObject(text: string, bytes?: Uint8Array, cost?: JsonCost): JsonObjectText {
  const members: { -readonly [Field in keyof Member]: Member[Field] }[] = [];
  let last: (typeof members)[number] | undefined;
  let duplicateKey: string | undefined;
  const open = new OpenObjects(text);
  const { seed, factor } = fingerprintSecret();
  let containers = 0;
  let separators = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      // Most strings are short. For them a loop that also hashes is faster than indexOf.
      const start = at + 1;
      let end = start;
      let fingerprint = seed;
      for (const near = start + NEAR_CHARACTERS; end < near; end++) {
        const unit = text.charCodeAt(end);
        if (unit === QUOTE || unit === BACKSLASH) break;
        fingerprint = mix(fingerprint, unit, factor);
      }
      const isPlain = text.charCodeAt(end) === QUOTE;
      const hashed = end;
      if (!isPlain) end = closingQuote(text, at);
      if (end < 0) break;
      const next = skipSpace(text, end + 1);
      const isKey = text.charCodeAt(next) === COLON;
      if (cost !== undefined && (isPlain || isCounted(end - start, isKey))) {
        cost.addString(text, start, end, hashed, fingerprint);
      }
      if (isKey && duplicateKey === undefined) {
        if (open.addKey(start, end, isPlain ? fingerprint : undefined)) {
          duplicateKey = keyText(text, start, end);
        } else if (open.depth === 1) {
          if (last !== undefined) last.valueEnd = valueEndBefore(text, at);
          const valueStart = skipSpace(text, next + 1);
          const key = keyText(text, start, end);
          last = { key, keyStart: at, valueStart, valueEnd: valueStart };
          members.push(last);
        }
      }
      at = next - 1;
    } else if (unit === COMMA || unit === COLON) {
      separators += 1;
    } else if (unit === OPEN_OBJECT) {
      containers += 1;
      cost?.checkContainers(containers);
      open.enter();
    } else if (unit === CLOSE_OBJECT) {
      open.leave();
      if (open.depth === 0 && last !== undefined) last.valueEnd = valueEndBefore(text, at);
    } else if (unit === OPEN_ARRAY) {
      containers += 1;
      cost?.checkContainers(containers);
    }
  }
  cost?.addParts(containers, separators);
  return { text, bytes, members, duplicateKey };
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
  if (!raw.includes("\\")) return raw;
  try {
    return String(JSON.parse(`"${raw}"`));
  } catch {
    // The whole text is invalid then.
    return raw;
  }
}

/** The end of the value before the next key or the closing brace at `at`. */
function valueEndBefore(text: string, at: number): number {
  const end = skipSpaceBack(text, at);
  return text.charCodeAt(end - 1) === COMMA ? skipSpaceBack(text, end - 1) : end;
}
