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
/** Random bytes are read for this many ids at once. */
const IDS_PER_READ = 64;

/** Makes ids such as `req_01jd…`. */
export type NewId = (prefix: string) => string;

/**
 * Ids are 45 bits of time and 55 random bits. They grow with time, so new rows are appended to an index.
 */
export function idMaker(clock: Clock, random: Random): NewId {
  let atMs = -1;
  let timeText = "";
  let bytes: Uint8Array = new Uint8Array(0);
  let used = 0;
  return (prefix) => {
    const nowMs = clock.epochMs();
    if (nowMs !== atMs) {
      atMs = nowMs;
      timeText = "";
      for (let i = 0, time = nowMs; i < TIME_CHARS; i += 1, time = Math.floor(time / 32))
        timeText = ALPHABET.charAt(time % 32) + timeText;
    }
    if (used + RANDOM_CHARS > bytes.length) {
      bytes = random.bytes(RANDOM_CHARS * IDS_PER_READ);
      used = 0;
    }
    let id = `${prefix}_${timeText}`;
    for (const end = used + RANDOM_CHARS; used < end; used += 1)
      id += ALPHABET.charAt((bytes[used] ?? 0) & 31);
    return id;
  };
}
