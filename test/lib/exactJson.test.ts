import { describe, expect, test } from "bun:test";
import { exactReader, parseExactly } from "../../src/lib/exactJson.ts";

describe("a text that is read exactly and written again", () => {
  test.each([
    '{"id":12345678901234567890}',
    '{"id":-9007199254740993,"more":[{"id":123456789012345678}]}',
    '{"far":1e400,"near":0.12345678901234567890}',
    '{"__proto__":{"id":9007199254740993}}',
    "[]",
    "12345678901234567890",
  ])("%s is the same", (text) => {
    expect(JSON.stringify(parseExactly(text))).toBe(text);
  });

  test("has plain numbers where a double holds them", () => {
    const value = { a: 1, b: -0.5, c: 9_007_199_254_740_991, d: "12345678901234567890", e: 1e21 };
    expect(parseExactly(JSON.stringify(value))).toEqual(value);
  });

  test.each(["", "{", '{"a":12345678901234567890', "1e", "[12345678901234567890,]"])(
    "%j is refused as JSON.parse refuses it",
    (text) => expect(() => parseExactly(text)).toThrow(SyntaxError),
  );

  test("is read still where it is nested deeper than the exact way goes", () => {
    const text = `${"[".repeat(20_000)}12345678901234567890${"]".repeat(20_000)}`;
    expect(Array.isArray(parseExactly(text))).toBe(true);
  });

  test("loses digits rather than time where the texts of one reader are long together", () => {
    const read = exactReader();
    const text = JSON.stringify({ long: "x".repeat(200_000) }).replace(
      "{",
      '{"id":1234567890123456789,',
    );
    expect(JSON.stringify(read(text))).toBe(text);
    expect(read(text)).toMatchObject({ id: 1_234_567_890_123_456_800 });
    expect(JSON.stringify(read('{"id":1234567890123456789}'))).toBe('{"id":1234567890123456789}');
  });

  test("loses digits rather than time where it is long", () => {
    const text = JSON.stringify({ long: "x".repeat(300_000) }).replace(
      "{",
      '{"id":1234567890123456789,',
    );
    expect(parseExactly(text)).toMatchObject({ id: 1_234_567_890_123_456_800 });
  });
});
