import type { Chance } from "../seededRandom.ts";
import { several } from "../several.ts";

/** Bytes that parsers often get wrong. */
const tokens = [
  "\r\n",
  "\n",
  "\r\n\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ",",
  '"',
  "\\",
  "{",
  "}",
  "[",
  "0",
  "-",
  "e",
  "\\ud800",
  "\u00ff",
  "\u00c0\u0080",
  "\u00ed\u00a0\u0080",
  "%00",
  "../",
  "0\r\n\r\n",
  "HTTP/1.1",
];

const changesMax = 3;
const sliceMax = 12;

/** Makes one to three changes: a bit, a byte, an insertion, a deletion, a repetition, or a cut end. */
export function changed(bytes: Buffer, chance: Chance): Buffer {
  let result = bytes;
  for (let left = 1 + chance.below(changesMax); left > 0; left -= 1) {
    if (result.length === 0) break;
    result = chance.pick(changes)(result, chance);
  }
  return result;
}

const changes: readonly ((bytes: Buffer, chance: Chance) => Buffer)[] = [
  (bytes, chance) => replaced(bytes, chance, (byte) => byte ^ (1 << chance.below(8))),
  (bytes, chance) => replaced(bytes, chance, () => chance.below(256)),
  (bytes, chance) =>
    put(bytes, chance.below(bytes.length), Buffer.from(chance.pick(tokens), "latin1")),
  (bytes, chance) => {
    const random = several(1 + chance.below(sliceMax), () => chance.below(256));
    return put(bytes, chance.below(bytes.length), Buffer.from(random));
  },
  (bytes, chance) => {
    const [start, end] = slice(bytes, chance);
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]);
  },
  (bytes, chance) => {
    const [start, end] = slice(bytes, chance);
    return put(bytes, end, bytes.subarray(start, end));
  },
  (bytes, chance) => bytes.subarray(0, chance.below(bytes.length)),
];

function replaced(bytes: Buffer, chance: Chance, by: (byte: number) => number): Buffer {
  const result = Buffer.from(bytes);
  const at = chance.below(bytes.length);
  result[at] = by(bytes[at] ?? 0);
  return result;
}

function put(bytes: Buffer, at: number, added: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at)]);
}

function slice(bytes: Buffer, chance: Chance): [start: number, end: number] {
  const start = chance.below(bytes.length);
  return [start, Math.min(bytes.length, start + 1 + chance.below(sliceMax))];
}
