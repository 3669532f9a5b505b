import { isAscii } from "node:buffer";
import { decodeUtf8 } from "./json.ts";
import { lazy } from "./lazy.ts";
import { systemRandom } from "./random.ts";

/** A shorter string is not cut. */
export const CUT_BYTES_MIN = 256;
/** What is kept of a cut string: the name of a type, or the beginning of a data address. */
const KEPT_BYTES = 64;
const KEPT_OF_ADDRESS_BYTES = 240;
const NEAR_BYTES = 64;
/** The most bytes of JSON that spell one UTF-16 unit. */
const ESCAPE_BYTES = "\\u0000".length;
const END = "\uffff";
const END_UNIT = 0xffff;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** Random for each process, so that no client can write what looks like a cut string. */
const secret = lazy(() => Buffer.from(systemRandom.bytes(12)).toString("base64url"));

/** A check needs a string whole that is cut in an outline. The check is repeated on the whole value. */
export class CutStringError extends Error {
  override readonly name = "CutStringError";
}

/** The UTF-8 bytes of a string, after unescaping. */
export function bytesOfString(text: string): number {
  return cutSize(text)?.bytes ?? Buffer.byteLength(text);
}

/** The UTF-16 units of a string, after unescaping. Throws CutStringError if that is not known. */
export function unitsOfString(text: string): number {
  const units = cutSize(text)?.units ?? text.length;
  if (Number.isNaN(units)) throw new CutStringError();
  return units;
}

/** The string itself. Throws CutStringError if it is cut. */
export function wholeString(text: string): string {
  if (cutSize(text)) throw new CutStringError();
  return text;
}

/**
 * The beginning of a string, after unescaping: at most this many UTF-16 units. `json` is the text that the outline is of. A cut
 * string is read from there.
 */
export function beginningOf(text: string, unitsMax: number, json: Uint8Array): string {
  const cut = cutSize(text);
  if (cut === undefined) return text.slice(0, unitsMax);
  const content = json.subarray(cut.start, cut.end);
  const read = content.subarray(0, wholeUnits(content, ESCAPE_BYTES * (unitsMax + 1)));
  return (JSON.parse(`"${decodeUtf8(read)}"`) as string).slice(0, unitsMax);
}

/** What an outline says of a string that it cuts. */
interface CutSize {
  /** UTF-8 bytes and UTF-16 units, after unescaping. */
  readonly bytes: number;
  readonly units: number;
  /** Where the string stands in the text, between its quotes. */
  readonly start: number;
  readonly end: number;
}

function cutSize(text: string): CutSize | undefined {
  if (text.charCodeAt(text.length - 1) !== END_UNIT) return undefined;
  if (!text.endsWith(secret() + END)) return undefined;
  const numbers = text.slice(text.lastIndexOf(END, text.length - 2) + 1).split(",");
  const [bytes = 0, units = 0, start = 0, end = 0] = numbers.slice(0, -1).map(Number);
  return { bytes, units, start, end };
}

/**
 * Writes the outline of a text of JSON: the same text, but long strings in the members with these names are cut. A cut string
 * has its beginning and its size.
 */
export class Outline {
  /** No cut string has a control character. */
  isValid = true;
  readonly #bytes: Uint8Array;
  readonly #names: ReadonlySet<string>;
  readonly #mayHaveControls: boolean;
  #isIn = false;
  #text = "";
  #copied = 0;

  constructor(bytes: Uint8Array, names: ReadonlySet<string>) {
    this.#bytes = bytes;
    this.#names = names;
    this.#mayHaveControls = hasControls(bytes);
  }

  /** The member of the top level with this name comes next. */
  enter(name: string): void {
    this.#isIn = this.#names.has(name);
  }

  /** Cuts the last string that was read, which stands between two quotes. */
  cut(start: number, end: number, { savedBytes, savedUnits }: StringReader): void {
    if (!this.#isIn) return;
    const content = this.#bytes.subarray(start, end);
    if (this.#mayHaveControls && content.some((byte) => byte < 0x20)) this.isValid = false;
    const kept = decodeUtf8(this.#bytes.subarray(this.#copied, start + keptLength(content)));
    const bytes = content.length - savedBytes;
    const units = isAscii(content) ? content.length - savedUnits : Number.NaN;
    this.#text += `${kept}\\uffff${bytes},${units},${start},${end},${secret()}\\uffff`;
    this.#copied = end;
  }

  text(): string {
    return this.#text + decodeUtf8(this.#bytes.subarray(this.#copied));
  }
}

/** How much of a long string is kept. */
function keptLength(content: Uint8Array): number {
  // `data:` in any case, also if it begins with an escape.
  const [first = 0] = content;
  const mayBeAddress = (first | 0x20) === 0x64 || first === BACKSLASH;
  return wholeUnits(content, mayBeAddress ? KEPT_OF_ADDRESS_BYTES : KEPT_BYTES);
}

/** The most bytes up to a limit that divide neither an escape nor a character. */
function wholeUnits(content: Uint8Array, bytesMax: number): number {
  let end = Math.min(bytesMax, content.length);
  while (((content[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  for (let at = 0; at < end; at++) {
    if (content[at] !== BACKSLASH) continue;
    const after = at + (content[at + 1] === LETTER_U ? 6 : 2);
    if (after > end) return at;
    at = after - 1;
  }
  return end;
}

/** Whether a byte is a control character of ASCII. */
function hasControls(bytes: Uint8Array): boolean {
  const words = wordsOf(bytes);
  let found = 0;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? 0;
    found |= (word - 0x20202020) & ~word;
  }
  const isInWords = (found & 0x80808080) !== 0;
  return isInWords || bytes.subarray(4 * words.length).some((byte) => byte < 0x20);
}

/** Reads strings of one text of JSON in order. It finds their ends and checks their escapes. */
export class StringReader {
  /** The escapes of all strings so far are valid. */
  areValid = true;
  /** An escape of half a surrogate pair stands alone. */
  hasLoneSurrogate = false;
  /** How much longer the escapes of the last string are than what they spell: in UTF-8 bytes, in UTF-16 units. */
  savedBytes = 0;
  savedUnits = 0;
  readonly #bytes: Uint8Array;
  readonly #words: Int32Array;
  /** The first backslash, and the first quote, from the last look on. */
  #backslash = -1;
  #quote = -1;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#words = wordsOf(bytes);
  }

  /** The closing quote of a string. `from` is in it, not behind its first escape. The length of the text if there is none. */
  read(from: number): number {
    const bytes = this.#bytes;
    let savedBytes = 0;
    let savedUnits = 0;
    let at = this.#special(from);
    let expectsSecondHalf = false;
    while (at < bytes.length && bytes[at] === BACKSLASH) {
      const letter = bytes[at + 1] ?? 0;
      const unit = letter === LETTER_U ? hexAt(bytes, at + 2) : -1;
      const isSecondHalf = unit >= 0xdc00 && unit <= 0xdfff;
      if (expectsSecondHalf !== isSecondHalf) this.hasLoneSurrogate = true;
      if (unit < 0 && !isSimpleEscape(letter)) this.areValid = false;
      savedUnits += unit < 0 ? 1 : 5;
      savedBytes += unit < 0 ? 1 : savedBytesOf(unit);
      at += unit < 0 ? 2 : 6;
      expectsSecondHalf = unit >= 0xd800 && unit < 0xdc00 && bytes[at] === BACKSLASH;
      if (unit >= 0xd800 && unit < 0xdc00 && !expectsSecondHalf) this.hasLoneSurrogate = true;
      at = this.#special(at);
    }
    this.savedBytes = savedBytes;
    this.savedUnits = savedUnits;
    return at;
  }

  /** The next quote or backslash. */
  #special(from: number): number {
    const bytes = this.#bytes;
    const words = this.#words;
    // A loop is faster than indexOf where the next one is near.
    const near = Math.min(from + NEAR_BYTES, bytes.length);
    let at = from;
    while (at < near) {
      if (at % 4 === 0) {
        const last = Math.min(near >> 2, words.length);
        let word = at >> 2;
        while (word < last && !hasSpecial(words[word] ?? 0)) word++;
        at = word << 2;
        if (at >= near) break;
      }
      const byte = bytes[at];
      if (byte === QUOTE || byte === BACKSLASH) return at;
      at++;
    }
    if (at >= bytes.length) return bytes.length;
    if (this.#backslash < at) this.#backslash = this.#next(BACKSLASH, at);
    if (this.#quote < at) this.#quote = this.#next(QUOTE, at);
    return Math.min(this.#backslash, this.#quote);
  }

  #next(byte: number, from: number): number {
    const found = this.#bytes.indexOf(byte, from);
    return found < 0 ? this.#bytes.length : found;
  }
}

/** What `\uXXXX` is longer than its character in UTF-8. Each half of a pair has two bytes. */
function savedBytesOf(unit: number): number {
  if (unit < 0x80) return 5;
  const isHalf = unit >= 0xd800 && unit <= 0xdfff;
  return unit < 0x800 || isHalf ? 4 : 3;
}

/** Each four bytes as one number, without the last few bytes. None if the bytes do not begin at a multiple of four. */
function wordsOf({ buffer, byteOffset, length }: Uint8Array): Int32Array {
  return byteOffset % 4 === 0 ? new Int32Array(buffer, byteOffset, length >> 2) : new Int32Array(0);
}

/** Whether one of the four bytes is a quote or a backslash. */
function hasSpecial(word: number): boolean {
  const quote = word ^ 0x22222222;
  const backslash = word ^ 0x5c5c5c5c;
  const zeros = ((quote - 0x01010101) & ~quote) | ((backslash - 0x01010101) & ~backslash);
  return (zeros & 0x80808080) !== 0;
}

/** The number of four hexadecimal digits; -1 for others. */
function hexAt(bytes: Uint8Array, at: number): number {
  let value = 0;
  for (let digit = at; digit < at + 4; digit++) {
    const unit = bytes[digit] ?? 0;
    const lower = unit | 0x20;
    if (unit >= 0x30 && unit <= 0x39) value = value * 16 + unit - 0x30;
    else if (lower >= 0x61 && lower <= 0x66) value = value * 16 + lower - 0x57;
    else return -1;
  }
  return value;
}

/** Whether the letter may stand behind a backslash: one of `"\/bfnrt`. */
function isSimpleEscape(letter: number): boolean {
  switch (letter) {
    case 0x22:
    case 0x5c:
    case 0x2f:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return true;
    default:
      return false;
  }
}
