import type { Clock } from "./clock.ts";

/** The source of randomness. A test can replace it. */
export interface Random {
  /** Cryptographically strong bytes. */
  bytes(length: number): Uint8Array;
  /** A number in [0, 1). Not for secrets. */
  fraction(): number;
}

export const systemRandom: Random = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
  fraction: () => Math.random(),
};

/** Crockford's base 32 in lower case: texts sort like the numbers. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_CHARS = 9;
const RANDOM_CHARS = 11;

/** Makes ids such as `req_01jd…`. */
export type NewId = (prefix: string) => string;

/**
 * Ids are 45 bits of time and 55 random bits. They grow with time, so new rows are appended to an index.
 */
export function idMaker(clock: Clock, random: Random): NewId {
  return (prefix) => {
    let time = clock.epochMs();
    let timeText = "";
    for (let i = 0; i < TIME_CHARS; i += 1) {
      timeText = ALPHABET.charAt(time % 32) + timeText;
      time = Math.floor(time / 32);
    }
    let chance = "";
    for (const byte of random.bytes(RANDOM_CHARS)) chance += ALPHABET.charAt(byte & 31);
    return `${prefix}_${timeText}${chance}`;
  };
}
