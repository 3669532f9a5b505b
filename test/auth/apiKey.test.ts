import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { hashKey, isWellFormedKey, issueKey } from "../../src/auth/apiKey.ts";
import { systemRandom, type Random } from "../../src/lib/random.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Chance that is not: every byte is the same. */
function bytesOf(byte: number): Random {
  return { bytes: (length) => new Uint8Array(length).fill(byte), fraction: () => 0 };
}

describe("an issued key", () => {
  test("has the form that secret scanners recognise", () => {
    for (let round = 0; round < 200; round++) {
      const { key, prefix } = issueKey(systemRandom);
      expect(key).toMatch(/^sk-tg-[0-9A-Za-z]{49}$/);
      expect(prefix).toBe(key.slice(0, 12));
      expect(isWellFormedKey(key)).toBe(true);
    }
  });

  test.each([0x00, 0xff])("holds all 256 bits when every byte is %d", (byte) => {
    const { key } = issueKey(bytesOf(byte));
    let secret = 0n;
    for (const digit of key.slice(6, 49)) secret = secret * 62n + BigInt(ALPHABET.indexOf(digit));
    expect(secret).toBe(byte === 0 ? 0n : 2n ** 256n - 1n);
    expect(isWellFormedKey(key)).toBe(true);
  });

  test("differs each time", () => {
    const keys = Array.from({ length: 1000 }, () => issueKey(systemRandom).key);
    expect(new Set(keys).size).toBe(1000);
  });

  test("is stored as the SHA-256 of the whole key", () => {
    const { key, hash } = issueKey(systemRandom);
    const expected = createHash("sha256").update(key).digest("hex");
    expect(Buffer.from(hash).toString("hex")).toBe(expected);
    expect(Buffer.from(hashKey(key)).toString("hex")).toBe(expected);
    expect(hash).toHaveLength(32);
  });
});

describe("a text that is not a key", () => {
  const { key } = issueKey(bytesOf(0x5a));

  test("is detected after any one wrong character", () => {
    for (let at = 6; at < key.length; at++) {
      for (const letter of ALPHABET) {
        const wrong = key.slice(0, at) + letter + key.slice(at + 1);
        expect(isWellFormedKey(wrong)).toBe(wrong === key);
      }
    }
  });

  test("is detected after two neighbouring characters were swapped", () => {
    for (let at = 6; at < key.length - 1; at++) {
      const swapped = key.slice(0, at) + key.charAt(at + 1) + key.charAt(at) + key.slice(at + 2);
      expect(isWellFormedKey(swapped)).toBe(swapped === key);
    }
  });

  test.each([
    "",
    "sk-tg-",
    key.slice(0, -1),
    `${key}0`,
    ` ${key}`,
    `${key}\n`,
    key.toUpperCase(),
    key.replace("sk-tg-", "sk-"),
    key.replace("sk-tg-", "sk-xx-"),
    "sk-tg-".padEnd(55, "0"),
  ])("%j is detected", (text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });
});
