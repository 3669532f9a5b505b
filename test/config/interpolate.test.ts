import { describe, expect, test } from "bun:test";
import { Inspection } from "../../src/config/inspection.ts";
import { interpolate } from "../../src/config/interpolate.ts";
import { loadText } from "./loadText.ts";

function interpolated(tree: unknown, environment: Readonly<Record<string, string>>) {
  const inspection = new Inspection("/", 0);
  return { tree: interpolate(tree, environment, inspection), problems: inspection.problems };
}

describe("a variable in a text", () => {
  const environment = { A: "1", _b2: "two", LOOP: "${A}", TOML: '"\n[evil]\nx = "' };
  test.each([
    ["${A}", "1"],
    ["x${A}y${_b2}z", "x1ytwoz"],
    ["${A}${A}", "11"],
    ["$A", "$A"],
    ["$${A}", "$1"],
    ["$$", "$$"],
    ["pa$$word", "pa$$word"],
    ["{A}", "{A}"],
    ["${LOOP}", "${A}"],
    ["${TOML}", '"\n[evil]\nx = "'],
    ["", ""],
  ])("%j becomes %j", (text, value) => {
    expect(interpolated({ list: [{ text }] }, environment)).toEqual({
      tree: { list: [{ text: value }] },
      problems: [],
    });
  });

  test.each(["${}", "${A", "${a-b}", "${1A}", "${ A }", "${A:-default}"])(
    "%j is no reference",
    (text) => {
      expect(interpolated({ list: [text] }, environment).problems).toEqual([
        "list[0]: a ${ must be followed by the name of an environment variable and a }",
      ]);
    },
  );

  test.each(["MISSING", "EMPTY", "constructor", "__proto__", "toString"])(
    "%s, unset or empty, is a problem that names it and its key, and says what to do",
    (name) => {
      const { problems } = interpolated(
        { a: { b: `x\${A}\${${name}}` } },
        { A: "canary", EMPTY: "" },
      );
      const state = name === "EMPTY" ? "empty" : "not set";
      expect(problems).toEqual([
        `a.b: the environment variable ${name} is ${state}: give it a value and run this again, or restart a gateway that did not start with it; what a service has stands in /etc/tollgate/environment, and as root \`set -a; . /etc/tollgate/environment\` takes it from there`,
      ]);
    },
  );
});

test("keys, numbers and truth values are left alone", () => {
  const tree = { "${A}": 1n, b: true, c: 1.5 };
  expect(interpolated(tree, { A: "x" })).toEqual({ tree, problems: [] });
});

test("a variable that is not set is the only problem of its key", () => {
  const text =
    '[[providers]]\nid = "one"\nbase_url = "${NOT_SET_ANYWHERE}"\napi_key = "${NOR_THIS}"';
  expect(loadText(text).problems).toEqual([
    expect.stringContaining("providers[0].api_key: the environment variable NOR_THIS is not set"),
    expect.stringContaining(
      "providers[0].base_url: the environment variable NOT_SET_ANYWHERE is not set",
    ),
  ]);
});
