import { describe, expect, test } from "bun:test";
import {
  truncateAtStop,
  StopSequenceScanner,
} from "../../../src/gateway/decoding/stopSequences.ts";
import { seededRandom } from "../../support/seededRandom.ts";
import { cpuTimer } from "../../support/measurement.ts";

/** What is shown of a text that comes in these pieces, and whether it was stopped. */
function watched(pieces: readonly string[], stops: readonly string[]): [string, boolean] {
  const watch = new StopSequenceScanner(stops);
  const shown = pieces.map((piece) => watch.push(piece)).join("");
  return [shown + watch.release(), watch.hasStopped];
}

/** The same said in the simplest words: letter by letter, until the text ends with a sequence. */
function cutSlowly(text: string, stops: readonly string[]): [string, boolean] {
  for (let end = 1; end <= text.length; end++) {
    const soFar = text.slice(0, end);
    const hits = stops.filter((stop) => soFar.endsWith(stop)).map(({ length }) => length);
    if (hits.length > 0) return [soFar.slice(0, end - Math.max(...hits)), true];
  }
  return [text, false];
}

describe("a text", () => {
  const cases: readonly (readonly [string, readonly string[], string | undefined])[] = [
    ["one two three", [" two"], "one"],
    ["one two three", ["four"], undefined],
    ["one two three", ["three", "two"], "one "],
    ["one", ["one"], ""],
    ["one", ["on", "one"], ""],
    ["xone", ["ne", "one"], "x"],
    ["aaab", ["aab"], "a"],
    ["abcd", ["abcde", "bc"], "a"],
    ["ababac", ["abac"], "ab"],
    ["жук 🦆 и 🦊", ["🦊"], "жук 🦆 и "],
    ["🦆", ["🦊"], undefined],
    ["a\n\nb", ["\n\n"], "a"],
    ["", ["a"], undefined],
    ["a", [], undefined],
  ];

  test.each(cases)("%j with the stops %j is shown as %j", (text, stops, shown) => {
    expect(truncateAtStop(text, stops)).toBe(shown as string);
    const expected: [string, boolean] = [shown ?? text, shown !== undefined];
    expect(watched([text], stops)).toEqual(expected);
    expect(watched(Array.from(text), stops)).toEqual(expected);
    expect(watched(text.split(""), stops)).toEqual(expected);
  });

  test("is cut in the same place however it comes", () => {
    for (let seed = 1; seed <= 3000; seed++) {
      const random = seededRandom(seed);
      const letters = random.pick([
        ["a", "b"],
        ["a", "b", "c"],
        ["🦆", "🦊", "a"],
      ]);
      const word = (length: number): string =>
        Array.from({ length }, () => random.pick(letters)).join("");
      const stops = Array.from({ length: 1 + random.below(4) }, () => word(1 + random.below(5)));
      const text = word(random.below(30));
      const expected = cutSlowly(text, stops);
      expect(watched([text], stops)).toEqual(expected);
      const pieces: string[] = [];
      for (let at = 0; at < text.length;) {
        const length = random.below(5);
        pieces.push(text.slice(at, at + length));
        at += length;
      }
      expect(watched(pieces, stops)).toEqual(expected);
    }
  });
});

describe("what is kept back", () => {
  test("is no more than what could begin a sequence", () => {
    const watch = new StopSequenceScanner(["</end>", "!!"]);
    const pieces = ["a<", "b", "</en", "t>", "!", "?", "c</end", ">d"];
    expect(pieces.map((piece) => watch.push(piece))).toEqual([
      "a",
      "<b",
      "",
      "</ent>",
      "",
      "!?",
      "c",
      "",
    ]);
    expect([watch.hasStopped, watch.release(), watch.push("more")]).toEqual([true, "", ""]);
  });

  test("is given out once, and no text that follows completes the sequence unseen", () => {
    const watch = new StopSequenceScanner(["stop"]);
    expect([watch.push("a st"), watch.release(), watch.release()]).toEqual(["a ", "st", ""]);
    expect([watch.push("o"), watch.push("p b"), watch.hasStopped]).toEqual(["", "", true]);
    const other = new StopSequenceScanner(["stop"]);
    expect([other.push("st"), other.release(), other.push("o"), other.push("ny")]).toEqual([
      "",
      "st",
      "",
      "ony",
    ]);
  });
});

test.each([
  ["in one piece", 1_000_000],
  ["unit by unit", 1],
])("hostile sequences take time linear in the text (%s)", (_, pieceUnits) => {
  const unitCount = 1_000_000;
  const half = "a".repeat(unitCount / 2);
  const stops = [`${half}b`, `b${half}`, `${"ab".repeat(1000)}c`, `${half}${half}`];
  const piece = "a".repeat(pieceUnits);
  const watch = new StopSequenceScanner(stops);
  const spentMs = cpuTimer();
  let shownUnits = 0;
  for (let sent = 0; sent < unitCount - 1; sent += pieceUnits)
    shownUnits += watch.push(piece).length;
  // A search that begins anew, or a text that is copied, at each unit takes minutes.
  expect(spentMs()).toBeLessThan(5000);
  expect([shownUnits, watch.hasStopped]).toEqual([0, pieceUnits > 1]);
});
