import type { Random } from "../lib/random.ts";
import { sha256 } from "../lib/sha256.ts";

/**
 * A code is 30 characters of Crockford's base 32 (https://www.crockford.com/base32.html): 120 random bits and a checksum
 * of 6 characters. People type it, so it is shown in groups of 5.
 */
export interface IssuedCode {
  /** The secret. It is shown once and never stored. */
  readonly code: string;
  readonly hash: Uint8Array;
  /** The first group, which lists show. */
  readonly prefix: string;
}

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_CHARS = 24;
const CHECKSUM_CHARS = 6;
const GROUP_CHARS = 5;

/** Crockford's reading of letters that look like digits. */
const READ_AS: Readonly<Record<string, string>> = { O: "0", I: "1", L: "1" };
/** Messengers replace hyphens by dashes, and spaces by others. */
const SEPARATORS = /[\s\p{Pd}]/gu;
const FORM = new RegExp(`^[${ALPHABET}]{${RANDOM_CHARS + CHECKSUM_CHARS}}$`);

export function issueCode(random: Random): IssuedCode {
  const values = [...random.bytes(RANDOM_CHARS)].map((byte) => byte % ALPHABET.length);
  const text = textOf([...values, ...checksum(values)]);
  const groups = text.match(new RegExp(`.{${GROUP_CHARS}}`, "g")) ?? [];
  return { code: groups.join("-"), hash: sha256(text), prefix: text.slice(0, GROUP_CHARS) };
}

/**
 * The SHA-256 of a code that was typed in any case, with or without hyphens and spaces. Undefined for a text with a
 * typing error, which the checksum finds without a search for the code.
 */
export function hashOfCode(typed: string): Uint8Array | undefined {
  const text = typed
    .replace(SEPARATORS, "")
    .replace(/[a-z]/g, (letter) => letter.toUpperCase())
    .replace(/[OIL]/g, (letter) => READ_AS[letter] ?? letter);
  if (!FORM.test(text)) return undefined;
  const values = text.split("").map((character) => ALPHABET.indexOf(character));
  return polymod(values) === CHECKSUM_OF_CODE ? sha256(text) : undefined;
}

/** A code as it is shown, or without its hyphens. */
const CODES_IN_TEXT = /(?:[0-9A-Z]{5}-?){6}/gi;

/** Replaces each code in a client's text by `***`. */
export function redactCodes(text: string): string {
  return text.replace(CODES_IN_TEXT, (found) => (hashOfCode(found) ? "***" : found));
}

function textOf(values: readonly number[]): string {
  return values.map((value) => ALPHABET.charAt(value)).join("");
}

/**
 * The checksum of Bech32m (https://github.com/bitcoin/bips/blob/master/bip-0350.mediawiki), without its prefix for people.
 * It finds each error of up to four characters, and others except one in a billion.
 */
const GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
const CHECKSUM_OF_CODE = 0x2bc830a3;

function checksum(values: readonly number[]): number[] {
  const empty = Array.from({ length: CHECKSUM_CHARS }, () => 0);
  const sum = polymod([...values, ...empty]) ^ CHECKSUM_OF_CODE;
  return empty.map((_, index) => (sum >> (5 * (CHECKSUM_CHARS - 1 - index))) & 31);
}

/** The remainder of the code, read as a polynomial over 32 elements, as 30 bits. */
function polymod(values: readonly number[]): number {
  let rest = 1;
  for (const value of values) {
    const top = rest >> 25;
    rest = ((rest & 0x1ffffff) << 5) ^ value;
    GENERATOR.forEach((term, bit) => {
      if ((top >> bit) & 1) rest ^= term;
    });
  }
  return rest;
}
