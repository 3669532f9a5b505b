import { expect, test } from "bun:test";
import { walk } from "../../src/lib/json.ts";

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

test("what the visitor does not want to see the inside of is not entered", () => {
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
