import { describe, expect, test } from "bun:test";
import { csv } from "../../../src/lib/csv.ts";
import { fields, table, visible } from "../../../src/lib/terminal.ts";

describe("a table", () => {
  test("aligns text left, numbers right and money at the point, without spaces at line ends", () => {
    const columns = [
      { head: "name" },
      { head: "n", kind: "number" },
      { head: "RUB", kind: "money" },
      { head: "x" },
    ] as const;
    const rows = [
      ["a", "7", "100", ""],
      ["long-name", "1234", "-0.000000001", "y"],
      ["b", "0", "12.5", ""],
    ];
    expect(table(columns, rows).split("\n")).toEqual([
      "name          n            RUB  x",
      "a             7  100",
      "long-name  1234   -0.000000001  y",
      "b             0   12.5",
    ]);
  });

  test("counts wide characters as two columns", () => {
    const lines = table(
      [{ head: "a" }, { head: "b" }],
      [
        ["счёт", "1"],
        ["模型", "2"],
        ["한", "3"],
        ["😀", "4"],
        ["e\u0301", "6"],
      ],
    ).split("\n");
    expect(lines).toEqual(["a     b", "счёт  1", "模型  2", "한    3", "😀    4", "e\u0301     6"]);
  });

  test("escapes line ends and control characters in cells", () => {
    const lines = table([{ head: "a" }, { head: "b" }], [["x\ny", "\u001b[31mred"]]).split("\n");
    expect(lines).toEqual(["a     b", "x\\ny  \\u001b[31mred"]);
  });
});

test("fields aligns names and values", () => {
  expect(
    fields([
      ["a", "1"],
      ["long", ""],
      ["b", "x\r\ny"],
    ]),
  ).toBe("a     1\nlong\nb     x\\r\\ny");
});

describe("text from outside", () => {
  test.each([
    ["plain, даже так 模型 😀", "plain, даже так 模型 😀"],
    ["\u{1F468}\u200d\u{1F469}\u200d\u{1F467}", "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}"],
    ["a\u001b[2Jb", "a\\u001b[2Jb"],
    ["\u009b31m", "\\u009b31m"],
    ["\u202eabc", "\\u202eabc"],
    ["a\tb\r\nc\u2028d", "a\\tb\\r\\nc\\u2028d"],
    ["\ud800", "\\ud800"],
    ["\u{e0001}", "\\udb40\\udc01"],
    ["\u0000\u007f", "\\u0000\\u007f"],
  ])("%j is shown as %j", (text, shown) => {
    expect(visible(text)).toBe(shown);
  });
});

describe("CSV", () => {
  test("quotes cells and ends lines as RFC 4180 requires", () => {
    const rows = [
      ["a", "b"],
      ['say "hi"', "x,y"],
      ["two\r\nlines", 3],
      ["plain", 0.5],
    ];
    expect(csv(rows)).toBe('a,b\r\n"say ""hi""","x,y"\r\n"two\r\nlines",3\r\nplain,0.5');
  });

  test("does not change a negative number", () => expect(csv([["-1.5"]])).toBe("-1.5"));

  test.each(["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"])(
    "adds an apostrophe to the formula %j",
    (text) => {
      expect(csv([[text]])).toMatch(/^"?'/);
    },
  );

  test("does not change numbers", () => {
    expect(csv([[-5, "5"]])).toBe("-5,5");
  });
});
