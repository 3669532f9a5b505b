import { EngineHash } from "./engineHash.ts";
import { closingQuote, skipSpace } from "./json.ts";
import { lazy } from "./lazy.ts";
import { systemRandom } from "./random.ts";

/**
 * Nothing in so short a text can be dear: the 200 names that it has room for are read in 0.2 ms if they all collide.
 * Most events of a stream are shorter, and so are small bodies.
 */
const CHEAP_CHARACTERS_MAX = 2048;
/** Objects and arrays. Ten thousand messages with pictures and calls of tools make 60,000; Bun reads so many in 0.1 s. */
const CONTAINERS_MAX = 131_072;
/** Colons and commas: the members of objects and the elements of arrays. */
const MEMBERS_MAX = 1_048_576;
/** Strings of at most this many characters as written, and keys of any length, are told apart and counted. */
const SHORT_CHARACTERS_MAX = 96;
/** Most names close within so many characters. Of a string that does not, the end is found before more of it is hashed. */
const NEAR_CHARACTERS = 32;
/** Distinct ones: ten thousand messages with an id and a short text each make 20,000. */
const DISTINCT_MAX = 65_536;
const KEY_CHARACTERS_MAX = 1024;
/**
 * An answer may have eight times the parts and names that a client's body may have. With probabilities asked for, each
 * of its tokens has twenty others beside it: 42 objects and arrays, and 230 members. The JSON texts in the strings of a
 * body have the same room, for the body's size bounds them already. Even among so many names chance makes no crowd of 32.
 */
export const ANSWER_COST_FACTOR = 8;
/**
 * Distinct strings in one of 65,536 places of the engine's tables. Chance puts a dozen there at the most, and each one
 * more is in the way of all that follow.
 */
const CROWD_MAX = 32;
const PLACES = 65_536;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/** Thrown for a text that may be valid, but that costs far more to read than it costs to send. */
export class CostlyJsonError extends Error {
  override readonly name = "CostlyJsonError";
}

/**
 * As JSON.parse, for a stranger's text: throws SyntaxError for what is no JSON, and CostlyJsonError, before anything is
 * read, where its many parts or names made to collide would hold up everything else. `room`: see JsonCost.
 */
export function parseUntrusted(text: string, room = 1): unknown {
  if (text.length > CHEAP_CHARACTERS_MAX) new JsonCost(room).add(text);
  return JSON.parse(text);
}

/** Chosen when the first text is read, so that no one can foretell which strings are taken for one another. */
const secret = lazy(() => {
  const [seed = 0, factor = 0] = new Int32Array(systemRandom.bytes(8).buffer);
  return { seed, factor: factor | 1 };
});
const hashing = lazy(() => ({
  engine: new EngineHash(KEY_CHARACTERS_MAX),
  units: new Uint16Array(KEY_CHARACTERS_MAX),
}));

/**
 * What texts that are read for one request cost together. In Bun 1.4.5 JSON.parse keeps one copy of each key, and of
 * each string value of up to 16 characters, in a table without a seed: 24,000 that collide took 25 seconds to read.
 */
export class JsonCost {
  #containers = 0;
  #members = 0;
  readonly #distinct = new IntegerSet();
  /** By place in the engine's table, how many distinct strings stand there. */
  #crowds: Uint8Array | undefined;
  readonly #secret = secret();
  readonly #room: number;

  /**
   * `room` multiplies the bounds of the parts and of the different names, for these cost no more than they are long.
   * Names that collide cost far more than that: their bound is the same for every text.
   */
  constructor(room = 1) {
    this.#room = room;
  }

  /** Counts what a text would cost, in one pass that makes no strings. Throws CostlyJsonError beyond any bound. */
  add(text: string): void {
    let containers = this.#containers;
    let members = this.#members;
    const containersMax = CONTAINERS_MAX * this.#room;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === QUOTE) at = this.#addString(text, at);
      else if (unit === COMMA || unit === COLON) members += 1;
      else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
        containers += 1;
        if (containers > containersMax) throw new CostlyJsonError("has too many parts");
      }
    }
    if (members > MEMBERS_MAX * this.#room) throw new CostlyJsonError("has too many parts");
    this.#containers = containers;
    this.#members = members;
  }

  /** Takes in the string that opens at `open`; returns where it closes, or the text's end where it does not. */
  #addString(text: string, open: number): number {
    const { seed, factor } = this.#secret;
    const start = open + 1;
    let print = seed;
    let at = start;
    for (const near = start + NEAR_CHARACTERS; at < near; at++) {
      const unit = text.charCodeAt(at);
      if (unit === QUOTE) {
        this.#addName(text, start, at, print);
        return at;
      }
      if (unit === BACKSLASH) break;
      print = mixed(print, unit, factor);
    }
    const close = closingQuote(text, open);
    if (close < 0) return text.length;
    const isShort = close - start <= SHORT_CHARACTERS_MAX;
    if (!isShort && text.charCodeAt(skipSpace(text, close + 1)) !== COLON) return close;
    if (close - open > KEY_CHARACTERS_MAX) throw new CostlyJsonError("has too long a key");
    for (; at < close; at++) print = mixed(print, text.charCodeAt(at), factor);
    this.#addName(text, start, close, print);
    return close;
  }

  #addName(text: string, start: number, end: number, print: number): void {
    if (!this.#distinct.add(print)) return;
    const count = this.#distinct.size;
    if (count <= CROWD_MAX) return;
    if (count > DISTINCT_MAX * this.#room)
      throw new CostlyJsonError("has too many different names");
    const { engine, units } = hashing();
    const length = writeUnescaped(text, start, end, units);
    const place = engine.of(units, length) % PLACES;
    const crowds = (this.#crowds ??= new Uint8Array(PLACES));
    const crowd = (crowds[place] ?? 0) + 1;
    if (crowd > CROWD_MAX) throw new CostlyJsonError("has names made to collide");
    crowds[place] = crowd;
  }
}

/** The upper bits of a product depend on all before it; they come down so that the next one mixes them as well. */
function mixed(print: number, unit: number, factor: number): number {
  const product = Math.imul(print ^ unit, factor);
  return product ^ (product >>> 15);
}

const ESCAPED: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** Writes the string between these quotes without its escapes into `units`; returns its length. */
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

const PLACES_AT_FIRST = 256;

/**
 * A set of integers of 32 bits, as a hash makes them: their low bits say where each belongs, so they must look like
 * chance. It is a quarter as dear as the runtime's, and never shrinks.
 */
class IntegerSet {
  size = 0;
  /** Zero stands for an empty place. */
  #places = new Int32Array(PLACES_AT_FIRST);

  /** True where it was not there before. */
  add(integer: number): boolean {
    const value = integer === 0 ? 1 : integer;
    const place = freePlace(this.#places, value);
    if (this.#places[place] === value) return false;
    this.#places[place] = value;
    this.size += 1;
    if (2 * this.size > this.#places.length) this.#grow();
    return true;
  }

  #grow(): void {
    const places = new Int32Array(4 * this.#places.length);
    for (const value of this.#places) {
      if (value !== 0) places[freePlace(places, value)] = value;
    }
    this.#places = places;
  }
}

/** Where the value stands, or else where it belongs. */
function freePlace(places: Int32Array, value: number): number {
  const last = places.length - 1;
  let place = value & last;
  while (places[place] !== 0 && places[place] !== value) place = (place + 1) & last;
  return place;
}
