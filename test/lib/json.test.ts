import { describe, expect, test } from "bun:test";
import { rawValue, textOf, type JsonObjectText, memberText, walk } from "../../src/lib/json.ts";
import { scanObject } from "../../src/lib/jsonObject.ts";
import { cpuTimer } from "../support/measurement.ts";
import { assert, constantFrom, dictionary, jsonValue, property } from "fast-check";

/** What the members look like from outside: key and raw value. */
function pairs(object: JsonObjectText): [string, string][] {
  return object.members.map(({ key, valueStart, valueEnd }) => [
    key,
    textOf(object, valueStart, valueEnd),
  ]);
}

describe("scanObject finds the members of the top level", () => {
  const cases: [name: string, text: string, expected: [string, string][]][] = [
    ["no member", "{}", []],
    ["no member but space", " \n{ \t}\r ", []],
    ["one", '{"a":1}', [["a", "1"]]],
    [
      "every kind of value",
      '{"a":"x","b":-1.5e+3,"c":true,"d":null,"e":[1,{"a":2}],"f":{"a":{}}}',
      [
        ["a", '"x"'],
        ["b", "-1.5e+3"],
        ["c", "true"],
        ["d", "null"],
        ["e", '[1,{"a":2}]'],
        ["f", '{"a":{}}'],
      ],
    ],
    [
      "space everywhere",
      ' { "a" : 1 , "b"\n:\t[ 1 , 2 ] \r\n, "c" : "x" } ',
      [
        ["a", "1"],
        ["b", "[ 1 , 2 ]"],
        ["c", '"x"'],
      ],
    ],
    ["an escaped key", String.raw`{"mod\u0065l":"x"}`, [["model", '"x"']]],
    ["an empty key", '{"":0}', [["", "0"]]],
    ["a key as every object inherits it", '{"__proto__":{"a":1}}', [["__proto__", '{"a":1}']]],
    [
      "structure within strings",
      String.raw`{"a":"{\"b\":1},","c":"\\","d":"\\\"}"}`,
      [
        ["a", String.raw`"{\"b\":1},"`],
        ["c", String.raw`"\\"`],
        ["d", String.raw`"\\\"}"`],
      ],
    ],
    [
      "a string in an array before a key",
      '{"a":["x","y"],"b":0}',
      [
        ["a", '["x","y"]'],
        ["b", "0"],
      ],
    ],
    ["text beyond Latin", '{"ключ":"значение 😀"}', [["ключ", '"значение 😀"']]],
  ];
  test.each(cases)("%s", (_, text, expected) => {
    expect(JSON.parse(text)).toBeDefined();
    const object = scanObject(text);
    expect(object.duplicateKey).toBeUndefined();
    expect(pairs(object)).toEqual(expected);
    for (const { key, keyStart } of object.members) {
      expect(textOf(object, keyStart).startsWith('"')).toBe(true);
      expect(rawValue(object, key)).toBe(pairs(object).find(([name]) => name === key)?.[1]);
    }
  });

  test("rawValue of an absent key is undefined", () => {
    expect(rawValue(scanObject('{"a":{"b":1}}'), "b")).toBeUndefined();
  });
});

describe("scanObject finds a key that stands twice", () => {
  const wide = Array.from({ length: 40 }, (_, index) => `"key${index}":${index}`).join(",");
  const long = "k".repeat(100);
  const cases: [name: string, text: string, duplicate: string | undefined][] = [
    ["at the top", '{"a":1,"a":2}', "a"],
    ["escaped the second time", String.raw`{"model":1,"mod\u0065l":2}`, "model"],
    ["escaped the first time", String.raw`{"mod\u0065l":1,"model":2}`, "model"],
    ["escaped in two ways", String.raw`{"\u0061":1,"\u0061":2}`, "a"],
    ["with an escaped slash", String.raw`{"a/b":1,"a\/b":2}`, "a/b"],
    ["empty", '{"":1,"":2}', ""],
    ["deep in objects", '{"a":{"b":{"c":1,"d":2,"c":3}}}', "c"],
    ["deep in arrays", '{"a":[[{"b":1},{"b":1,"b":2}]]}', "b"],
    ["after an inner object with the same key", '{"a":{"a":1},"b":2,"a":3}', "a"],
    ["a long one", `{"${long}":1,"${long}":2}`, long],
    ["a long one after short ones", `{"a":1,"${long}":1,"a":2}`, "a"],
    ["among many, the first", `{${wide},"key0":0}`, "key0"],
    ["among many, the last", `{${wide},"key39":0}`, "key39"],
    ["in an object after one with many", `{"a":{${wide}},"b":{"x":1,"x":2}}`, "x"],
    ["in an object around one with many", `{"a":{${wide}},"b":1,"a":2}`, "a"],
    ["the first of two", '{"a":{"x":1,"x":2},"b":1,"b":2}', "x"],
    ["as every object inherits it", '{"__proto__":1,"__proto__":2}', "__proto__"],
    ["none: siblings", '{"a":[{"b":1},{"b":2}],"c":{"a":1}}', undefined],
    ["none: other letter case", '{"a":1,"A":2}', undefined],
    ["none: strings that are values", '{"a":"a","b":["a","a"]}', undefined],
    ["none: equal hash", '{"Aa":1,"BB":2}', undefined],
    ["none: an escape that spells another key", String.raw`{"a":1,"\\u0061":2}`, undefined],
    ["none: many twice in two objects", `{"a":{${wide}},"b":{${wide}}}`, undefined],
  ];
  test.each(cases)("%s", (_, text, duplicate) => {
    expect(JSON.parse(text)).toBeDefined();
    expect(scanObject(text).duplicateKey).toBe(duplicate);
  });
});

describe("scanObject survives hostile shapes", () => {
  test("millions of nested arrays", () => {
    const depth = 2_000_000;
    const object = scanObject(`{"a":${"[".repeat(depth)}${"]".repeat(depth)},"b":1}`);
    expect(object.members.map(({ key }) => key)).toEqual(["a", "b"]);
  });

  test("a million nested objects, with a duplicate at the bottom", () => {
    const depth = 1_000_000;
    const text = `{"a":${'{"a":'.repeat(depth)}{"x":1,"x":2}${"}".repeat(depth)}}`;
    expect(scanObject(text).duplicateKey).toBe("x");
  });

  test("a string of backslashes and quotes takes linear time", () => {
    const text = JSON.stringify({ a: '\\"'.repeat(1_000_000), b: "\\".repeat(2_000_000) });
    const spentMs = cpuTimer();
    expect(scanObject(text).members).toHaveLength(2);
    // A quadratic scan of six million characters would take hours.
    expect(spentMs()).toBeLessThan(3_000);
  });
});

test("a string ends where it ends, however far apart its escapes stand", () => {
  const fillers = Array.from({ length: 12 }, (_, length) => "x".repeat(length));
  const strings = fillers.flatMap((filler) => ['"', "\\", '"\\', '\\"'].map((one) => one + filler));
  for (const one of strings) {
    for (const count of [1, 2, 8, 9, 10, 11, 40]) {
      for (const end of ["", '"', "\\", '\\"', "x".repeat(20)]) {
        const value = one.repeat(count) + end;
        const written = JSON.stringify(value);
        expect(pairs(scanObject(`{"a":${written},"b":1}`))).toEqual([
          ["a", written],
          ["b", "1"],
        ]);
      }
    }
  }
});

test.each<[string, string | undefined]>([
  ['{"usage":{"a":1}}', '{"a":1}'],
  ['{"usage":1,"other":[1,2]}', "1"],
  ['{ "usage" : [1, {"usage":2}] , "x": 1 }', ' [1, {"usage":2}] '],
  ['{"usage":1,"usage":2}', "2"],
  ['{"a":{"usage":1},"b":[{"usage":2}],"c":"\\",\\"usage\\":3"}', undefined],
  ['{"a":"usage","usage":4}', "4"],
  ["{}", undefined],
  ["", undefined],
  ['"usage":1', undefined],
  ['{"usage', undefined],
  ['{"usage":{"a":1', undefined],
])("the usage in %s is %p", (text, value) => {
  expect(memberText(text, "usage")).toBe(value);
});

test("is what the parser finds, in any object", () => {
  const names = constantFrom("usage", "a", "b", 'usage"', "\\usage");
  const values = jsonValue().map((value) => [
    value,
    { usage: value },
    JSON.stringify({ usage: value }),
  ]);
  assert(
    property(dictionary(names, values), constantFrom(undefined, 2), (object, space) => {
      const found = memberText(JSON.stringify(object, undefined, space), "usage");
      expect(found === undefined ? undefined : JSON.parse(found)).toEqual(
        object["usage"] && JSON.parse(JSON.stringify(object["usage"])),
      );
    }),
  );
});

test("is found beyond a million levels", () => {
  const deep = "[".repeat(1_000_000) + "]".repeat(1_000_000);
  expect(memberText(`{"a":${deep},"usage":1}`, "usage")).toBe("1");
});

type RequestContext = readonly [value: unknown, key: string | undefined];

function visitsOf(
  value: unknown,
  into: (value: unknown) => boolean = () => true,
): RequestContext[] {
  const visits: RequestContext[] = [];
  walk(value, (found, key) => {
    visits.push([found, key]);
    return into(found);
  });
  return visits;
}

test.each(["text", 5, true, null])("the value itself is visited, without a key: %j", (value) => {
  expect(visitsOf(value)).toEqual([[value, undefined]]);
});

test("members come with their key, items without one, and each once", () => {
  const inner = { c: null };
  const list = ["x", inner];
  const value = { a: 1, b: list };
  const expected = [
    [value, undefined],
    [1, "a"],
    [list, "b"],
    ["x", undefined],
    [inner, undefined],
    [null, "c"],
  ];
  const visits = visitsOf(value);
  expect(visits).toHaveLength(expected.length);
  expect(visits).toEqual(expect.arrayContaining(expected));
});

test("the walk skips the inside of a value that the visitor declines", () => {
  const value = { a: { secret: 1 }, b: [["secret"]] };
  expect(visitsOf(value, (found) => found === value)).toEqual([
    [value, undefined],
    [value.a, "a"],
    [value.b, "b"],
  ]);
  expect(visitsOf(value, () => false)).toEqual([[value, undefined]]);
});

test("a key that names something of every object is one like any other", () => {
  const visits = visitsOf(JSON.parse('{"__proto__":{"constructor":"x"}}'));
  expect(visits.slice(1)).toEqual([
    [{ constructor: "x" }, "__proto__"],
    ["x", "constructor"],
  ]);
});

test("no depth is too deep", () => {
  const depth = 1_000_000;
  const value: unknown = JSON.parse("[".repeat(depth) + "]".repeat(depth));
  let count = 0;
  walk(value, () => (count += 1) > 0);
  expect(count).toBe(depth);
});
