import { describe, expect, test } from "bun:test";
import { hashOfCode, issueCode } from "../../src/auth/voucherCode.ts";
import { systemRandom } from "../../src/lib/random.ts";
import { sha256 } from "../../src/lib/sha256.ts";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Some codes, without their hyphens. */
const codes = Array.from({ length: 20 }, () => issueCode(systemRandom).code.replaceAll("-", ""));

function replaced(code: string, place: number, character: string): string {
  return code.slice(0, place) + character + code.slice(place + 1);
}

test("a code has 120 random bits in groups of 5, and its hash is that of its characters", () => {
  const seen = new Set<string>();
  for (let count = 0; count < 1000; count += 1) {
    const { code, hash, prefix } = issueCode(systemRandom);
    expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}(?:-[0-9A-HJKMNP-TV-Z]{5}){5}$/);
    expect(code.startsWith(`${prefix}-`)).toBe(true);
    expect(hash).toEqual(sha256(code.replaceAll("-", "")));
    seen.add(code.replaceAll("-", "").slice(0, 24));
  }
  expect(seen.size).toBe(1000);
});

test("each value of each random byte gives a character, all 32 equally often", () => {
  const counts = new Map<string, number>();
  for (let byte = 0; byte < 256; byte += 1) {
    const random = {
      ...systemRandom,
      bytes: (length: number) => new Uint8Array(length).fill(byte),
    };
    const [character = ""] = issueCode(random).code;
    counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  expect([...counts.values()]).toEqual(ALPHABET.split("").map(() => 8));
});

describe("the checksum finds", () => {
  test("each other character in each place", () => {
    for (const code of codes)
      for (let place = 0; place < code.length; place += 1)
        for (const other of ALPHABET.replace(code.charAt(place), ""))
          expect(hashOfCode(replaced(code, place, other))).toBeUndefined();
  });

  test("any two characters that changed places", () => {
    for (const code of codes)
      for (let one = 0; one < code.length; one += 1)
        for (let other = one + 1; other < code.length; other += 1) {
          if (code[one] === code[other]) continue;
          const swapped = replaced(
            replaced(code, one, code.charAt(other)),
            other,
            code.charAt(one),
          );
          expect(hashOfCode(swapped)).toBeUndefined();
        }
  });

  test("texts without a checksum", () => {
    const found = Array.from({ length: 30_000 }, (_, index) => {
      const start = index
        .toString(32)
        .toUpperCase()
        .replace(/[ILOU]/g, "Z");
      return start.padStart(30, codes[index % codes.length]?.slice(0, 10));
    }).filter((text) => !codes.includes(text) && hashOfCode(text) !== undefined);
    expect(found).toEqual([]);
  });
});

test.each([
  ["nothing", ""],
  ["a group", "7Q2MV"],
  ["zeros", "0".repeat(30)],
  ["letters that no code has", "U".repeat(30)],
  ["Cyrillic letters", "\u0410".repeat(30)],
  ["a long text", "0".repeat(4000)],
])("%s is no code", (_, text) => {
  expect(hashOfCode(text)).toBeUndefined();
});
