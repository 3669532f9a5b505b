import { describe, expect, test } from "bun:test";
import { exactReader } from "../../src/lib/exactJson.ts";
import { CostlyJsonError, parseUntrusted } from "../../src/lib/untrustedJson.ts";
import { parseAnswer } from "../../src/providers/reportedFailure.ts";
import { ExcessiveAnswerError } from "../../src/providers/provider.ts";
import { collidingNames } from "../support/provider/collidingNames.ts";

const numbered = (count: number, name: string): string[] =>
  Array.from({ length: count }, (_, at) => `${name}${at}`);
const asKeys = (names: readonly string[]): string =>
  JSON.stringify(Object.fromEntries(names.map((name) => [name, 1])));
const escaped = (name: string): string =>
  name.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

describe("names that collide in the engine's tables are refused", () => {
  const names = collidingNames(200);
  test.each<[string, string]>([
    ["as keys of one object", asKeys(names)],
    ["as keys of many", JSON.stringify(names.map((name) => ({ [name]: 1 })))],
    ["as values", JSON.stringify(names)],
    ["as escaped values", `[${names.map((name) => `"${escaped(name)}"`).join(",")}]`],
    ["as escaped keys", `{${names.map((name) => `"${escaped(name)}":1`).join(",")}}`],
    [
      "as long keys",
      asKeys(names.map((name) => `${"\u4e22".repeat(16)}${name}${"\u4e22".repeat(90)}`)),
    ],
    ["before the end of a text that is cut off", JSON.stringify(names).slice(0, -2)],
  ])("%s", (_, text) => {
    expect(() => parseUntrusted(text)).toThrow(new CostlyJsonError("has names made to collide"));
  });

  test("where many short texts of one request have them together", () => {
    const read = exactReader();
    const texts = names.map((name) => JSON.stringify({ [name]: 1 }));
    expect(() => texts.map((text) => read(text))).toThrow(CostlyJsonError);
  });

  test("however they differ: by an escape at any place", () => {
    const letters = ["b", "f", "n", "r", "t", "\\", "/", '"'];
    const few = collidingNames(8);
    const all = few.flatMap((name) =>
      letters.flatMap((one) =>
        letters.map((two) => `"${name.slice(0, 6)}\\${one}\\${two}${name.slice(8)}"`),
      ),
    );
    expect(() => parseUntrusted(`[${all.join(",")}]`)).toThrow(CostlyJsonError);
  });
});

describe("what no honest request has is refused", () => {
  test.each<[string, string, string]>([
    ["arrays", `[${"[],".repeat(140_000)}1]`, "has too many parts"],
    ["objects", `[${"{},".repeat(140_000)}1]`, "has too many parts"],
    ["levels", `${"[".repeat(140_000)}${"]".repeat(140_000)}`, "has too many parts"],
    ["elements", `[${"1,".repeat(1_100_000)}1]`, "has too many parts"],
    ["keys", asKeys(numbered(70_000, "k")), "has too many different names"],
    ["short values", JSON.stringify(numbered(70_000, "v")), "has too many different names"],
    [
      "letters of a key",
      `{"a":"${"x".repeat(2000)}","${"k".repeat(1025)}":1}`,
      "has too long a key",
    ],
  ])("too many %s", (_, text, message) => {
    expect(() => parseUntrusted(text)).toThrow(new CostlyJsonError(message));
  });
});

test("an answer may have twenty alternatives for each of thousands of tokens", () => {
  const tokens = Array.from({ length: 5000 }, (_, at) => ({
    token: `t${at}`,
    top_logprobs: Array.from({ length: 20 }, (_, other) => ({
      token: `t${at}-${other}`,
      logprob: -1,
      bytes: [116, 45],
    })),
  }));
  const text = JSON.stringify({ choices: [{ logprobs: { content: tokens } }] });
  expect(() => parseUntrusted(text)).toThrow(CostlyJsonError);
  expect(parseAnswer(text)).toEqual(JSON.parse(text));
  const colliding = JSON.stringify({ choices: collidingNames(200) });
  expect(() => parseAnswer(colliding)).toThrow(ExcessiveAnswerError);
});

describe("what an honest request has is read as JSON.parse reads it", () => {
  const prose = 'A sentence with "quotes", a \\ and a line end.\n';
  const schema = {
    type: "object",
    properties: Object.fromEntries(
      numbered(20, "property_").map((name) => [name, { type: "string", enum: numbered(8, name) }]),
    ),
  };
  const bodies: [string, unknown][] = [
    ["a long text", { messages: [{ role: "user", content: prose.repeat(20_000) }] }],
    [
      "ten thousand messages with an id and a text of their own",
      numbered(10_000, "call_").map((id, at) => ({
        role: "tool",
        tool_call_id: id,
        content: [{ type: "text", text: `${at} °C, ясно` }],
      })),
    ],
    ["500 tools with schemas", numbered(500, "tool_").map((name) => ({ name, schema }))],
    [
      "biases of 20,000 tokens",
      { logit_bias: Object.fromEntries(numbered(20_000, "1").map((token) => [token, -100])) },
    ],
    ["60,000 different short values", numbered(60_000, "слово ")],
    ["a million numbers", Array.from({ length: 1_000_000 }, (_, at) => at)],
    ["100,000 objects of one shape", Array.from({ length: 100_000 }, () => ({ a: 1, b: "x" }))],
    ["a key of a thousand letters", { ["k".repeat(1000)]: "x".repeat(2000) }],
  ];
  test.each(bodies)("%s", (_, body) => {
    const text = JSON.stringify(body);
    expect(JSON.stringify(parseUntrusted(text))).toBe(text);
  });

  test("colliding names in a text that is too short to cost much time", () => {
    const names = collidingNames(20);
    expect(parseUntrusted(JSON.stringify(names))).toEqual(names);
  });
});

test.each([
  "",
  "{",
  `{"a":"${"x".repeat(3000)}`,
  `{"${"x".repeat(3000)}`,
  `[${"1,".repeat(2000)}]`,
])("no JSON is a SyntaxError (%#)", (text) =>
  expect(() => parseUntrusted(text)).toThrow(SyntaxError),
);
