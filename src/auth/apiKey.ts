import type { Random } from "../lib/random.ts";
import { sha256 } from "../lib/sha256.ts";

/**
 * A key is `sk-tg-`, 256 random bits in 43 base62 characters, and a checksum of 6 characters. Secret scanners recognise
 * the prefix. The checksum finds a mistyped key without a read of the database.
 */
export interface IssuedKey {
  /** The secret. It is shown once and never stored. */
  key: string;
  hash: Uint8Array;
  /** The first characters, which lists show. */
  prefix: string;
}

export const KEY_HEAD = "sk-tg-";
const SECRET_BYTES = 32;
const SECRET_CHARS = 43;
const CHECKSUM_CHARS = 6;
const PREFIX_CHARS = 12;
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** A key or the beginning of one. Each character may be percent-encoded, as in a URL. */
const HEAD_IN_TEXT = KEY_HEAD.replace(/./g, (char) => `(?:${char}|%${Buffer.from(char).toHex()})`);
const KEYS_IN_TEXT = new RegExp(`${HEAD_IN_TEXT}(?:[0-9a-z]|%[0-9a-f]{2})*`, "gi");
const FORM = /^sk-tg-[0-9A-Za-z]{49}$/;

export function issueKey(random: Random): IssuedKey {
  const secret = BigInt(`0x${random.bytes(SECRET_BYTES).toHex()}`);
  const body = KEY_HEAD + base62(secret, SECRET_CHARS);
  const key = body + checksum(body);
  return { key, hash: hashKey(key), prefix: key.slice(0, PREFIX_CHARS) };
}

/** Whether prefix, length, alphabet and checksum are those of a key. */
export function isWellFormedKey(text: string): boolean {
  return (
    FORM.test(text) && checksum(text.slice(0, -CHECKSUM_CHARS)) === text.slice(-CHECKSUM_CHARS)
  );
}

/** Replaces each key in a client's text, percent-encoded ones too, by `sk-tg-***`. */
export function redactKeys(text: string): string {
  return text.replace(KEYS_IN_TEXT, `${KEY_HEAD}***`);
}

/** SHA-256. A secret of 256 bits needs no slow hash, and a slow hash would cost CPU for each invalid key. */
export function hashKey(key: string): Uint8Array {
  return sha256(key);
}

/** CRC-32 in base62. It runs for each request: numbers cost a tenth of bigints. */
function checksum(text: string): string {
  let digits = "";
  let rest = Bun.hash.crc32(text);
  for (let place = 0; place < CHECKSUM_CHARS; place += 1) {
    digits = ALPHABET.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

function base62(number: bigint, length: number): string {
  let text = "";
  for (let rest = number; rest > 0n; rest /= 62n) text = ALPHABET.charAt(Number(rest % 62n)) + text;
  return text.padStart(length, "0");
}
