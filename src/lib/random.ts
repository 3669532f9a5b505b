import type { Clock } from "./clock.ts";

/** Where chance comes from, so that a test can take its place. */
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

/** Crockford's base 32, lower case: its order is the order of the numbers it writes. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_CHARS = 9;
const RANDOM_CHARS = 11;

/** Makes ids such as `req_01jd…`. */
export type NewId = (prefix: string) => string;

/**
 * Ids are 45 bits of time and 55 bits of chance. Because they grow with time, new rows land at the
 * end of an index however many rows there are.
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
