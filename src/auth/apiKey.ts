import type { KeySecretRow, Store } from "../store/store.ts";
import type { Random } from "../lib/random.ts";
import { sha256 } from "../lib/sha256.ts";

/** The caller of a request: the key it came with, and through it the account that pays. */
export type Caller = Omit<KeySecretRow, "hash">;

/**
 * The caller whose key this is, read from the store afresh so that a revocation counts at once.
 * Undefined alike for a key that is unknown, revoked or expired, or whose account is disabled.
 */
export function authenticate(
  token: string | undefined,
  keys: Pick<Store["keys"], "findByHash">,
  nowMs: number,
): Caller | undefined {
  if (token === undefined || !isWellFormedKey(token)) return undefined;
  const hash = hashKey(token);
  const key = keys.findByHash(hash);
  // An index that is damaged must not let anybody in as somebody else.
  if (!key || !crypto.timingSafeEqual(hash, key.hash)) return undefined;
  if (key.revokedAt !== null) return undefined;
  if (key.expiresAt !== null && key.expiresAt <= nowMs) return undefined;
  return key.accountDisabled ? undefined : key;
}

/**
 * A key is `sk-tg-`, 256 random bits in 43 base62 characters, and a checksum of 6: a scanner finds a
 * leaked one, and a mistyped one is known without a look into the store.
 */
export interface IssuedKey {
  /** The whole secret; shown once, never kept. */
  key: string;
  hash: Uint8Array;
  /** The part that lists show. */
  prefix: string;
}

/** What every key begins with. */
export const KEY_HEAD = "sk-tg-";
const SECRET_BYTES = 32;
const SECRET_CHARS = 43;
const CHECKSUM_CHARS = 6;
const PREFIX_CHARS = 12;
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** A key, or what begins like one, any of whose characters may be percent-encoded, as in a URL. */
const HEAD_IN_TEXT = KEY_HEAD.replace(/./g, (char) => `(?:${char}|%${Buffer.from(char).toHex()})`);
const KEYS_IN_TEXT = new RegExp(`${HEAD_IN_TEXT}(?:[0-9a-z]|%[0-9a-f]{2})*`, "gi");
const FORM = /^sk-tg-[0-9A-Za-z]{49}$/;

export function issueKey(random: Random): IssuedKey {
  const secret = BigInt(`0x${random.bytes(SECRET_BYTES).toHex()}`);
  const body = KEY_HEAD + base62(secret, SECRET_CHARS);
  const key = body + checksum(body);
  return { key, hash: hashKey(key), prefix: key.slice(0, PREFIX_CHARS) };
}

/** Whether the text can be a key at all; only such a text is worth a hash and a read. */
export function isWellFormedKey(text: string): boolean {
  return (
    FORM.test(text) && checksum(text.slice(0, -CHECKSUM_CHARS)) === text.slice(-CHECKSUM_CHARS)
  );
}

/** A client's text without the keys that somebody put into it; in a URL they may be percent-encoded. */
export function redactKeys(text: string): string {
  return text.replace(KEYS_IN_TEXT, `${KEY_HEAD}***`);
}

/** SHA-256: fast is right for a secret of 256 bits, and slow would let a stranger spend our time. */
export function hashKey(key: string): Uint8Array {
  return sha256(key);
}

/** Each request is checked so: plain numbers, which a CRC fits into, cost a tenth of bigints. */
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
