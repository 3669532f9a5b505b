import { expect, test } from "bun:test";
import { hasLoneSurrogateEscape } from "../../src/contract/jsonBody.ts";

const cases: [text: string, lone: boolean][] = [
  ['"plain"', false],
  ['"😀"', false],
  [String.raw`"\u0041\n\\"`, false],
  [String.raw`"\ud7ff\ue000"`, false],
  [String.raw`"\ud83d\ude00"`, false],
  [String.raw`"\uD83D\uDE00 \uDBFF\uDFFF"`, false],
  [String.raw`"\\ud800"`, false],
  [String.raw`"\\\\ud800"`, false],
  [String.raw`"\\ude00\ud83d\ude00"`, false],
  [String.raw`"\ud800"`, true],
  [String.raw`"\uD800x"`, true],
  [String.raw`"\udbff\u0041"`, true],
  [String.raw`"\udc00"`, true],
  [String.raw`"\uDFFF"`, true],
  [String.raw`"\ud83d\ude00\ude00"`, true],
  [String.raw`"\ud83d\ud83d\ude00"`, true],
  [String.raw`"\ud83d\\ude00"`, true],
  [String.raw`"\\\ud800"`, true],
  [String.raw`"\ud83d","\ude00"`, true],
  ['"\\ud83d😀"', true],
];

test.each(cases)("%s: %p", (strings, lone) => {
  const text = `[${strings}]`;
  // The runtime's own notion of well-formed strings says the same.
  expect((JSON.parse(text) as string[]).every((value) => value.isWellFormed())).toBe(!lone);
  expect(hasLoneSurrogateEscape(text)).toBe(lone);
});
