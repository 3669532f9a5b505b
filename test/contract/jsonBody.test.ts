import { describe, expect, test } from "bun:test";
import { parseJsonObject } from "../../src/contract/jsonBody.ts";
import { textOf } from "../../src/lib/json.ts";
import { collidingNames } from "../support/provider/collidingNames.ts";
import { cpuTimer } from "../support/measurement.ts";
import { refusalOf } from "./refusal.ts";

test("parseJsonObject refuses names that would take seconds to read, and says so", async () => {
  const text = JSON.stringify({ metadata: collidingNames(20_000, 1) });
  const spentMs = cpuTimer();
  const refusal = await refusalOf(() => parseJsonObject(text));
  expect(refusal).toMatchObject({ status: 400, message: "body has names made to collide" });
  expect(spentMs()).toBeLessThan(500);
});

describe("parseJsonObject refuses", () => {
  const notJson = "body is not valid JSON";
  const notObject = "body must be a JSON object";
  const rows: [text: string, message: string][] = [
    ["", notJson],
    ["  \n ", notJson],
    ["{", notJson],
    ["{}}", notJson],
    ["{} {}", notJson],
    ['{"a":1,}', notJson],
    ["{'a':1}", notJson],
    ["{a:1}", notJson],
    ['{"a":NaN}', notJson],
    ['{"a":Infinity}', notJson],
    ['{"a":01}', notJson],
    ['{"a":+1}', notJson],
    ['{"a":.5}', notJson],
    ['{"a":0x1}', notJson],
    ['{"a":undefined}', notJson],
    ['{"a":1}//', notJson],
    ['{/**/"a":1}', notJson],
    ['{"a":"\n"}', notJson],
    ['{"a":"\u0000"}', notJson],
    ['{"a":1\u0000}', notJson],
    [String.raw`{"a":"\x41"}`, notJson],
    [String.raw`{"a":"\u00"}`, notJson],
    ["\uFEFF{}", notJson],
    ["{}\u00A0", notJson],
    ["null", notObject],
    ["[]", notObject],
    ['[{"model":"x"}]', notObject],
    ['"{}"', notObject],
    ["1", notObject],
    ["true", notObject],
    ['{"model":1,"model":1}', "model stands twice"],
    [String.raw`{"model":1,"mod\u0065l":2}`, "model stands twice"],
    ['{"messages":[{"role":"user","role":"system"}]}', "role stands twice"],
    ['{"__proto__":1,"__proto__":1}', "__proto__ stands twice"],
    [`{"${"k".repeat(100)}":1,"${"k".repeat(100)}":1}`, `${"k".repeat(64)}... stands twice`],
    [String.raw`{"a":"\ud800"}`, "invalid unicode"],
    [String.raw`{"a":["\udc00"]}`, "invalid unicode"],
    [String.raw`{"\ud800":1}`, "invalid unicode"],
  ];
  test.each(rows)("%j: %s", async (text, message) => {
    const refusal = await refusalOf(() => parseJsonObject(text));
    expect(refusal?.toBody()).toEqual({ error: { message, type: "invalid_request_error" } });
    expect(refusal?.cause).toBeUndefined();
  });

  // Only a longer text is counted.
  test.each(rows)("%j before much space: %s", async (text, message) => {
    const refusal = await refusalOf(() => parseJsonObject(text + " ".repeat(2100)));
    expect(refusal?.message).toBe(message);
  });

  test.each([
    ["is cut off", (text: string) => text.slice(0, -1)],
    ["is no object", (text: string) => `[${text}]`],
    ["has a key twice", (text: string) => text.replace("{", '{"metadata":1,')],
    ["goes on after its end", (text: string) => `{}${text}`],
  ])("names made to collide first, also in a text that %s", async (_, change) => {
    const text = change(JSON.stringify({ metadata: collidingNames(200, 1) }));
    const refusal = await refusalOf(() => parseJsonObject(text));
    expect(refusal?.message).toBe("body has names made to collide");
  });
});

describe("parseJsonObject accepts", () => {
  test.each([
    "{}",
    " {\t}\r\n",
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}',
    String.raw`{"a":"\u0000\ud83d\ude00\\ud800"}`,
    '{"a":1e400,"b":-0,"c":9007199254740993}',
  ])("%s", (text) => {
    const { value, object } = parseJsonObject(text);
    expect(value).toEqual(JSON.parse(text));
    expect(textOf(object)).toBe(text);
    expect(object.members.map(({ key }) => key)).toEqual(Object.keys(value));
  });

  test("keys that every object inherits, with no effect on other objects", () => {
    const text = '{"__proto__":{"stream":true},"constructor":1,"hasOwnProperty":2}';
    const { value } = parseJsonObject(text);
    expect(Object.hasOwn(value, "__proto__")).toBe(true);
    expect("stream" in value).toBe(false);
    expect("stream" in {}).toBe(false);
  });

  test("a body nested 100,000 deep", () => {
    const depth = 100_000;
    const text = `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    const { object } = parseJsonObject(text);
    expect(object.members).toHaveLength(1);
  });
});

const surrogateCases: [text: string, lone: boolean][] = [
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

test.each(surrogateCases)("%s: %p", async (strings, lone) => {
  const text = `[${strings}]`;
  // The runtime's own notion of well-formed strings says the same.
  expect((JSON.parse(text) as string[]).every((value) => value.isWellFormed())).toBe(!lone);
  const refusal = await refusalOf(() => parseJsonObject(`{"a":${text}}`));
  expect(refusal?.message).toBe(lone ? "invalid unicode" : undefined);
});
