import { describe, expect, test } from "bun:test";
import { EngineHash } from "../../src/lib/engineHash.ts";
import { sample } from "../support/sample.ts";

const COUNT = 600;
const LENGTH_MAX = 128;
/** The tables of so few names are no larger than this. */
const PLACES = 2048;
const hash = new EngineHash(LENGTH_MAX);

interface Named {
  readonly together: string[];
  readonly apart: string[];
}

/** Names of one length: as many that share a place as do not. */
function names(length: number, letter: number): Named {
  const together: string[] = [];
  const apart: string[] = [];
  const units = new Uint16Array(LENGTH_MAX).fill(letter);
  for (let number = 0; together.length < COUNT; number += 1) {
    for (let at = 0; at < 5; at += 1) units[at] = letter + (Math.floor(number / 25 ** at) % 25);
    const shares = hash.of(units, length) % PLACES === 7;
    // A name takes longer to make than to hash, and most are of no use.
    if (!shares && apart.length === COUNT) continue;
    (shares ? together : apart).push(String.fromCharCode(...units.subarray(0, length)));
  }
  return { together, apart };
}

/** Names that differ behind a constant of the hash, which wipes out what they differ in, and others that it leaves. */
function wiped(before: string, constant: string, after: string): Named {
  const together: string[] = [];
  const apart: string[] = [];
  for (let number = 0; number < COUNT; number += 1) {
    const own = `${number + 10_000}own`;
    together.push(`${before}${constant}${own}${after}`);
    apart.push(`${before}${constant.slice(1)}0${own}${after}`);
  }
  return { together, apart };
}

/** The least time of many, in milliseconds: what reading costs when nothing disturbs it. */
function readMs(text: string): number {
  const times = Array.from({ length: 15 }, () => {
    const startedMs = performance.now();
    JSON.parse(text);
    return performance.now() - startedMs;
  });
  return Math.min(...times);
}

const textOf = (keys: readonly string[]): string =>
  `{${keys.map((key) => `"${key}":1`).join(",")}}`;

function expectInTheWay({ together, apart }: Named): void {
  const [slow, quick] = [textOf(together), textOf(apart)];
  // While they are held they stay in the engine's table, and reading them again is quick.
  together.length = 0;
  apart.length = 0;
  expect(readMs(slow)).toBeGreaterThan(2 * readMs(quick));
}

/** After a change of the runtime these fail where its hash is another one: then the guard of JSON.parse needs it too. */
describe("names that share a place by this hash are in each other's way in the engine", () => {
  const alphabets = [
    [5, 0x61],
    [8, 0x41],
    [16, 0x61],
    [7, 0x4e00],
  ] as const;
  test.each(sample(alphabets, 1))(
    "of %i characters from %i",
    (length, letter) => expectInTheWay(names(length, letter)),
    60_000,
  );

  const tail = "sixteen letters.";
  const constants = ["\xa5\x78\x6c\xaa\xcc\x8d\x35\x2d", "\xa3\xd4\x33\xd4\x2e\xa6\x33\x4b"];
  test.each([
    ["", constants[1], tail],
    ["a".repeat(48), constants[1], tail],
    ["", constants[0], "b".repeat(40)],
    ["a".repeat(32), constants[1], tail],
    ["", constants[0], "b".repeat(90)],
  ])("where a constant is in them (%#)", (before, constant = "", after) => {
    const named = wiped(before, constant, after);
    const places = new Set(named.together.map(hashOf));
    expect(places.size).toBe(1);
    expectInTheWay(named);
  });
});

function hashOf(text: string): number {
  return hash.of(
    Uint16Array.from(text, (letter) => letter.charCodeAt(0)),
    text.length,
  );
}

test("the shortest strings have a hash as well", () => {
  expect(new Set(["", "a", "b", "ab", "ba", "abc", "abcd"].map(hashOf)).size).toBe(7);
});
