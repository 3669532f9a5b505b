import { EngineHash } from "./engineHash.ts";
import { closingQuote, decodeUtf8, skipSpace } from "./json.ts";
import { lazy } from "./lazy.ts";
import { systemRandom } from "./random.ts";

/** A shorter text is not counted. It has at most 200 names, and 200 colliding names are parsed in 0.2 ms. */
export const CHEAP_CHARACTERS_MAX = 2048;
/**
 * The most objects and arrays. 10,000 messages with images and tool calls have 60,000; Bun parses this maximum in 0.1
 * s.
 */
const CONTAINERS_MAX = 131_072;
/** The most colons and commas: members of objects and elements of arrays. */
const MEMBERS_MAX = 1_048_576;
/** Strings up to this length, with escapes, and keys of any length are counted. */
export const SHORT_CHARACTERS_MAX = 96;
/** Most names are shorter. The end of a longer string is found before more of it is hashed. */
export const NEAR_CHARACTERS = 32;
/** The most distinct strings. 10,000 messages with an id and a short text each have 20,000. */
const DISTINCT_MAX = 65_536;
export const KEY_CHARACTERS_MAX = 1024;
/**
 * Multiplies the limits for answers of providers. With 20 `top_logprobs` each token has 42 objects and arrays and 230
 * members. JSON texts inside the strings of a body have the same limits: the body's size bounds them already.
 */
export const ANSWER_COST_FACTOR = 8;
/** The most distinct strings in one of 65,536 buckets. Random strings reach a dozen. */
const BUCKET_STRINGS_MAX = 32;
const BUCKETS = 65_536;
/** The first distinct strings are not put into buckets. So few cost little, even if all of them collide. */
const FREE_STRINGS_MAX = 128;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/** Parsing the text would block the process for too long. The text may be valid JSON. */
export class CostlyJsonError extends Error {
  override readonly name = "CostlyJsonError";
}

/**
 * JSON.parse for untrusted text. Throws SyntaxError for invalid JSON, and CostlyJsonError, before parsing, for a text
 * with too many parts or with strings that collide in the engine's hash tables. `factor`: see {@link JsonCost}.
 */
export function parseUntrusted(text: string, factor = 1): unknown {
  if (text.length > CHEAP_CHARACTERS_MAX) costOfOneText(factor).add(text);
  return JSON.parse(text);
}

/**
 * Like {@link parseUntrusted}, but a number becomes its text, such as `"1.25e-06"`, because a float would round it. Throws
 * RangeError for JSON that is nested too deeply.
 */
export function parseExactNumbers(text: string): unknown {
  costOfOneText().add(text);
  return JSON.parse(text, numberText);
}

/** https://tc39.es/proposal-json-parse-with-source/ */
function numberText(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === "number" ? context?.source : value;
}

/** Random for each process, so that nobody can construct strings that have the same fingerprint. */
export const fingerprintSecret = lazy(() => {
  const [seed = 0, factor = 0] = new Int32Array(systemRandom.bytes(8).buffer);
  return { seed, factor: factor | 1 };
});
const hashing = lazy(() => ({
  engine: new EngineHash(KEY_CHARACTERS_MAX),
  units: new Uint16Array(KEY_CHARACTERS_MAX),
}));

const newBuckets = (): Uint8Array => new Uint8Array(BUCKETS);
/** New memory costs more than the rest of a count. */
const sharedBuckets = lazy(newBuckets);

/** Counts what one text costs to parse. It must be added before another text is counted so. */
export function costOfOneText(factor?: number): JsonCost {
  return new JsonCost(factor, () => sharedBuckets().fill(0));
}

/**
 * Counts what all texts of one request cost to parse. In Bun 1.4.5 JSON.parse puts each key, and each string value of
 * up to 16 characters, into a hash table without a seed: 24,000 colliding strings took 25 seconds.
 */
export class JsonCost {
  #containers = 0;
  #members = 0;
  readonly #distinct = new IntegerSet();
  /** The number of distinct strings by bucket. */
  #buckets: Uint8Array | undefined;
  readonly #bucketsOf: () => Uint8Array;
  readonly #secret = fingerprintSecret();
  readonly #factor: number;

  /** `factor` multiplies the limits of parts and of distinct names, which cost linear time. The limit of collisions is fixed. */
  constructor(factor = 1, bucketsOf = newBuckets) {
    this.#factor = factor;
    this.#bucketsOf = bucketsOf;
  }

  /** Adds a text in one pass that makes no strings. Throws CostlyJsonError over a limit. */
  add(text: string): void {
    let containers = 0;
    let separators = 0;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === QUOTE) at = this.#addString(text, at);
      else if (unit === COMMA || unit === COLON) separators += 1;
      else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
        containers += 1;
        this.checkContainers(containers);
      }
    }
    this.addParts(containers, separators);
  }

  /** Throws CostlyJsonError if the text so far has too many containers. */
  checkContainers(containers: number): void {
    if (this.#containers + containers > CONTAINERS_MAX * this.#factor)
      throw new CostlyJsonError("has too many parts");
  }

  /** Adds the containers, and the commas and colons, of a whole text. */
  addParts(containers: number, separators: number): void {
    this.#containers += containers;
    this.#members += separators;
    if (this.#members > MEMBERS_MAX * this.#factor) throw new CostlyJsonError("has too many parts");
  }

  /** Adds the string that opens at `open`. Returns the index of its closing quote, or the text's length. */
  #addString(text: string, open: number): number {
    const { seed, factor } = this.#secret;
    const start = open + 1;
    let fingerprint = seed;
    let at = start;
    for (const near = start + NEAR_CHARACTERS; at < near; at++) {
      const unit = text.charCodeAt(at);
      if (unit === QUOTE) {
        this.#addName(text, start, at, fingerprint);
        return at;
      }
      if (unit === BACKSLASH) break;
      fingerprint = mix(fingerprint, unit, factor);
    }
    const close = closingQuote(text, open);
    if (close < 0) return text.length;
    const isKey = text.charCodeAt(skipSpace(text, close + 1)) === COLON;
    if (isCounted(close - start, isKey)) {
      this.checkLength(close - start);
      this.addString(text, start, close, at, fingerprint);
    }
    return close;
  }

  /** Throws CostlyJsonError for a counted string with too many UTF-16 units. */
  checkLength(characters: number): void {
    if (characters >= KEY_CHARACTERS_MAX) throw new CostlyJsonError("has too long a key");
  }

  /** Adds the string between two quotes. Up to `hashed` it is in the fingerprint already. Throws CostlyJsonError. */
  addString(text: string, start: number, end: number, hashed: number, fingerprint: number): void {
    let whole = fingerprint;
    for (let at = hashed; at < end; at++) {
      whole = mix(whole, text.charCodeAt(at), this.#secret.factor);
    }
    this.#addName(text, start, end, whole);
  }

  /** The same for a string in UTF-8. */
  addBytes(
    bytes: Uint8Array,
    start: number,
    end: number,
    hashed: number,
    fingerprint: number,
  ): void {
    let whole = fingerprint;
    for (let at = hashed; at < end; at++) {
      whole = mix(whole, bytes[at] ?? 0, this.#secret.factor);
    }
    if (!this.#isNew(whole)) return;
    const { units } = hashing();
    for (let at = start; at < end; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === BACKSLASH || byte >= 0x80) {
        const text = decodeUtf8(bytes.subarray(start, end));
        return this.#addToBucket(writeUnescaped(text, 0, text.length, units));
      }
      units[at - start] = byte;
    }
    this.#addToBucket(end - start);
  }

  #addName(text: string, start: number, end: number, fingerprint: number): void {
    if (!this.#isNew(fingerprint)) return;
    this.#addToBucket(writeUnescaped(text, start, end, hashing().units));
  }

  /** Counts a string. Whether it is one that has to go into a bucket. Throws CostlyJsonError for too many. */
  #isNew(fingerprint: number): boolean {
    if (!this.#distinct.add(fingerprint)) return false;
    const distinct = this.#distinct.size;
    if (distinct > DISTINCT_MAX * this.#factor)
      throw new CostlyJsonError("has too many different names");
    return distinct > FREE_STRINGS_MAX;
  }

  /** Adds the string of this length that is in `units`. Throws CostlyJsonError for a full bucket. */
  #addToBucket(length: number): void {
    const { engine, units } = hashing();
    const bucket = engine.of(units, length) % BUCKETS;
    const buckets = (this.#buckets ??= this.#bucketsOf());
    const count = (buckets[bucket] ?? 0) + 1;
    if (count > BUCKET_STRINGS_MAX) throw new CostlyJsonError("has names made to collide");
    buckets[bucket] = count;
  }
}

/** Whether a string counts that is long or has escapes: every key, and every value up to SHORT_CHARACTERS_MAX. */
export function isCounted(characters: number, isKey: boolean): boolean {
  return isKey || characters <= SHORT_CHARACTERS_MAX;
}

/** The shift moves the well-mixed upper bits down, so that the next multiplication mixes them too. */
export function mix(fingerprint: number, unit: number, factor: number): number {
  const product = Math.imul(fingerprint ^ unit, factor);
  return product ^ (product >>> 15);
}

const ESCAPED: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** Writes the unescaped string between two quotes into `units`. Returns its length. */
function writeUnescaped(text: string, start: number, end: number, units: Uint16Array): number {
  let length = 0;
  for (let at = start; at < end; at++) {
    let unit = text.charCodeAt(at);
    if (unit === BACKSLASH) {
      at += 1;
      const letter = text.charAt(at);
      if (letter === "u") {
        unit = Number.parseInt(text.slice(at + 1, at + 5), 16);
        at += 4;
      } else {
        unit = (ESCAPED.get(letter) ?? letter).charCodeAt(0);
      }
    }
    units[length] = unit;
    length += 1;
  }
  return length;
}

const SLOTS_INITIAL = 256;

/** A set of 32-bit hashes with open addressing by their low bits. It costs a quarter of the runtime's Set. */
class IntegerSet {
  size = 0;
  /** Zero marks an empty slot. */
  #slots = new Int32Array(SLOTS_INITIAL);

  add(integer: number): boolean {
    const value = integer === 0 ? 1 : integer;
    const slot = findSlot(this.#slots, value);
    if (this.#slots[slot] === value) return false;
    this.#slots[slot] = value;
    this.size += 1;
    if (2 * this.size > this.#slots.length) this.#grow();
    return true;
  }

  #grow(): void {
    const slots = new Int32Array(4 * this.#slots.length);
    for (const value of this.#slots) {
      if (value !== 0) slots[findSlot(slots, value)] = value;
    }
    this.#slots = slots;
  }
}

/** The slot of the value, or the empty slot where it belongs. */
function findSlot(slots: Int32Array, value: number): number {
  const last = slots.length - 1;
  let slot = value & last;
  while (slots[slot] !== 0 && slots[slot] !== value) slot = (slot + 1) & last;
  return slot;
}
