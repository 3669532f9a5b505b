import { expect, test } from "bun:test";
import { assert, constantFrom, dictionary, jsonValue, property } from "fast-check";
import { memberText } from "../../src/lib/json.ts";

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
