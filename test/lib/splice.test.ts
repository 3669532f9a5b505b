import { describe, expect, test } from "bun:test";
import { textOf, type JsonObjectText } from "../../src/lib/json.ts";
import { scanObject } from "../../src/lib/jsonObject.ts";
import { splice, spliceBytes, spliceEach } from "../../src/lib/splice.ts";
import { seededRandom } from "../support/seededRandom.ts";

/** What the members look like from outside: key and raw value. */
function pairs(object: JsonObjectText): [string, string][] {
  return object.members.map(({ key, valueStart, valueEnd }) => [
    key,
    textOf(object, valueStart, valueEnd),
  ]);
}

describe("splice", () => {
  const text = ' { "a" : 1 , "b":2,\n"c" : [3] } ';
  const cases: [name: string, edits: Parameters<typeof splice>[1], expected: string][] = [
    ["changes nothing", {}, text],
    ["replaces in place", { set: { b: '"x"' } }, ' { "a" : 1 , "b":"x",\n"c" : [3] } '],
    ["replaces all", { set: { a: "0", b: "0", c: "0" } }, ' { "a" : 0 , "b":0,\n"c" : 0 } '],
    ["adds at the end", { set: { d: "{}" } }, ' { "a" : 1 , "b":2,\n"c" : [3],"d":{} } '],
    ["removes the first", { remove: ["a"] }, ' { "b":2,\n"c" : [3] } '],
    ["removes the middle", { remove: ["b"] }, ' { "a" : 1,\n"c" : [3] } '],
    ["removes the last", { remove: ["c"] }, ' { "a" : 1 , "b":2 } '],
    ["removes the first two", { remove: ["a", "b"] }, ' { "c" : [3] } '],
    ["removes the last two", { remove: ["c", "b"] }, ' { "a" : 1 } '],
    ["removes the outer two", { remove: ["a", "c"] }, ' { "b":2 } '],
    ["removes all", { remove: ["a", "b", "c"] }, " {  } "],
    ["removes what is not there", { remove: ["d"] }, text],
    ["removes all and adds", { remove: ["a", "b", "c"], set: { d: "4" } }, ' { "d":4 } '],
    [
      "removes the last and adds",
      { remove: ["c"], set: { d: "4" } },
      ' { "a" : 1 , "b":2,"d":4 } ',
    ],
    [
      "sets what is removed too",
      { remove: ["a"], set: { a: "9" } },
      ' { "a" : 9 , "b":2,\n"c" : [3] } ',
    ],
  ];
  test.each(cases)("%s", (_, edits, expected) => {
    expect(splice(scanObject(text), edits)).toBe(expected);
    expect(JSON.parse(expected)).toBeDefined();
  });

  test("adds to an empty object", () => {
    expect(splice(scanObject(" { } "), { set: { a: "1", b: "2" } })).toBe(' {"a":1,"b":2 } ');
  });

  test("keeps digits, escapes and order of all it does not touch", () => {
    const body = String.raw`{"z":12345678901234567890,"a":-0,"s":"\u0041\/","model":"x","e":1E400}`;
    expect(splice(scanObject(body), { set: { model: '"y"' } })).toBe(body.replace('"x"', '"y"'));
  });

  test("writes an added key so that it reads as given", () => {
    const spliced = splice(scanObject("{}"), { set: { 'a"\n': "1" } });
    expect(JSON.parse(spliced)).toEqual({ 'a"\n': 1 });
  });
});

describe("splice agrees with the same edits on the parsed object", () => {
  const keys = [
    "a",
    "b",
    "c",
    "model",
    "stream",
    "é",
    'q"',
    "longer_than_most_keys_are_in_a_body_",
    "",
  ];
  for (let seed = 1; seed <= 20; seed++) {
    test(`seed ${seed}`, () => {
      const random = seededRandom(seed);
      for (let round = 0; round < 200; round++) {
        const members = keys
          .filter(() => random.chance(0.5))
          .map((key) => [key, randomRaw(random, 3)] as const);
        const space = (): string => random.pick(["", "", " ", "\n\t", "\r\n  "]);
        const written = members.map(
          ([key, raw]) =>
            `${space()}${randomKey(random, key)}${space()}:${space()}${raw}${space()}`,
        );
        const text = `${space()}{${written.join(",") || space()}}${space()}`;
        const set = Object.fromEntries(
          keys.filter(() => random.chance(0.2)).map((key) => [key, randomRaw(random, 1)]),
        );
        const remove = keys.filter((key) => random.chance(0.3) && !Object.hasOwn(set, key));

        const object = scanObject(text);
        expect(pairs(object)).toEqual(members.map(([key, raw]) => [key, raw]));
        const spliced = splice(object, { set, remove });
        expect(JSON.parse(spliced)).toEqual(edited(JSON.parse(text), set, remove));
        // What is neither set nor removed keeps its bytes and its order.
        const untouched = (of: JsonObjectText): [string, string][] =>
          pairs(of).filter(([key]) => !Object.hasOwn(set, key) && !remove.includes(key));
        expect(untouched(scanObject(spliced))).toEqual(untouched(object));
      }
    });
  }
});

describe("spliceEach", () => {
  test.each([
    ["[]", "[]"],
    [' [ {"a":1} , {"b":2,"a":[{"a":1}]},\n{ } ] ', ' [ {} , {"b":2},\n{ } ] '],
    [
      String.raw`[{"b":"\\","a":"]}"},{"b":"{\"a\":1}"}]`,
      String.raw`[{"b":"\\"},{"b":"{\"a\":1}"}]`,
    ],
    ['[{"b":[[{"a":1}],{"a":{}}]}]', '[{"b":[[{"a":1}],{"a":{}}]}]'],
  ])("removes members of the objects of %s, and of nothing in them", (text, expected) => {
    expect(spliceEach(text, { remove: ["a"] })).toBe(expected);
  });

  test("takes time linear in the text", () => {
    const deep = `{"b":${"[".repeat(500_000)}${"]".repeat(500_000)},"a":1}`;
    const wide = Array.from({ length: 100_000 }, () => '{"a":"\\\\","b":1}').join(",");
    const spliced = spliceEach(`[${deep},${wide}]`, { remove: ["a"] });
    expect(spliced.includes('"a"')).toBe(false);
    expect(spliced.length).toBe(
      `[${deep},${wide}]`.length - ',"a":1'.length - 100_000 * '"a":"\\\\",'.length,
    );
  });
});

describe("spliceBytes", () => {
  /** So much that its bytes are kept, of one, two, three and four bytes a character. */
  const fillings = ["a", "я", "語", "😀"].map((letter) => letter.repeat(70_000 / letter.length));
  const sent = (body: string | readonly Uint8Array[]): string =>
    typeof body === "string" ? body : Buffer.concat(body).toString();

  test("is a text where it is small", () => {
    expect(spliceBytes(scanObject('{"a":1}'), { set: { a: "2" } })).toBe('{"a":2}');
  });

  test("shares the bytes that stay", () => {
    const object = scanObject(`{"model":"x","я":"${fillings[1]}","stream":true}`);
    const parts = spliceBytes(object, { set: { model: '"y"', more: "1" } });
    const large = Array.from(parts as Uint8Array[]).find(({ length }) => length > 100_000);
    expect(large?.buffer).toBe(object.bytes.buffer);
  });

  for (let seed = 1; seed <= 10; seed++) {
    test(`says in bytes what splice says in text, seed ${seed}`, () => {
      const random = seededRandom(seed);
      for (let round = 0; round < 50; round++) {
        const keys = ["model", "é", "large", "日本", "max_tokens", "😀"].filter(() =>
          random.chance(0.7),
        );
        const large = random.pick(fillings);
        const members = keys.map(
          (key) =>
            `${JSON.stringify(key)}: ${key === "large" ? `"${large}"` : randomRaw(random, 2)} `,
        );
        const before = random.chance(0.3) ? `"first":"${large}",` : "";
        const text = `{${before}${members.join(",") || '"one":1'}}`;
        const set = Object.fromEntries(
          [...keys, "added", "ё"].filter(() => random.chance(0.3)).map((key) => [key, '"ю"']),
        );
        const edits = { set, remove: keys.filter(() => random.chance(0.3)) };
        expect(sent(spliceBytes(scanObject(text), edits))).toBe(splice(scanObject(text), edits));
      }
    });
  }
});

function edited(
  value: Record<string, unknown>,
  set: Record<string, string>,
  remove: readonly string[],
) {
  const result = new Map(Object.entries(value).filter(([key]) => !remove.includes(key)));
  for (const [key, raw] of Object.entries(set)) result.set(key, JSON.parse(raw));
  return Object.fromEntries(result);
}

/** A key as some client might write it: as it is, or with its first character escaped. */
function randomKey(random: ReturnType<typeof seededRandom>, key: string): string {
  if (key === "" || random.chance(0.7)) return JSON.stringify(key);
  const code = key.charCodeAt(0).toString(16).padStart(4, "0");
  return `"\\u${code}${JSON.stringify(key.slice(1)).slice(1)}`;
}

function randomRaw(random: ReturnType<typeof seededRandom>, depth: number): string {
  const leaves = [
    "0",
    "-0",
    "1.50",
    "12345678901234567890",
    "true",
    "null",
    '""',
    '"a,b}"',
    String.raw`"\\\""`,
    '"😀"',
    "[]",
    "{}",
  ];
  if (depth === 0 || random.chance(0.6)) return random.pick(leaves);
  const inner = Array.from({ length: 3 }, () => randomRaw(random, depth - 1));
  return random.chance(0.5)
    ? `[ ${inner.join(" ,")}]`
    : `{${inner.map((raw, index) => `"k${index}" :${raw}`).join(", ")} }`;
}
