import { casesOf, plainCases, type JsonCase } from "./jsonCase.ts";

/** Strings: characters that are valid raw, only escaped, or not at all. */
export function stringCases(): readonly JsonCase[] {
  return [
    ...plainCases("a string", "accepted", escaped),
    ...casesOf("a string", "accepted", raw),
    ...plainCases("no string", "body is not valid JSON", unsound),
    ...controls(),
    ...plainCases("a string with half a pair", "invalid unicode", halves),
  ];
}

const escaped = [
  '""',
  '" "',
  String.raw`"\""`,
  String.raw`"\\"`,
  String.raw`"\/"`,
  String.raw`"\b"`,
  String.raw`"\f"`,
  String.raw`"\n"`,
  String.raw`"\r"`,
  String.raw`"\t"`,
  String.raw`"\u0000"`,
  String.raw`"\u001f"`,
  String.raw`"\u0022"`,
  String.raw`"\u005c"`,
  String.raw`"\u0041"`,
  String.raw`"\u00e9\u00E9"`,
  String.raw`"\uFEFF"`,
  String.raw`"\uFFFD\uFFFE\uFFFF"`,
  String.raw`"\uD7FF\uE000"`,
  String.raw`"\uD83D\uDE00"`,
  String.raw`"\ud800\udc00\udbff\udfff"`,
  String.raw`"\\ud800"`,
  String.raw`"\\\\udc00"`,
  String.raw`"\\\ud83d\ude00"`,
  String.raw`"{\"a\":1,\"a\":2}"`,
  String.raw`["\\","\\\\","\\\""]`,
];

const raw = {
  "with a DEL": '"\u007F"',
  "with a control of the second row": '"\u0080\u0085\u009F"',
  "with line separators": '"\u2028\u2029"',
  "with a byte order mark": '"\uFEFF"',
  "with characters of four bytes": '"\u{1F600}\u{10FFFF}"',
  "with joined emoji": '"\u{1F468}\u200D\u{1F469}\u200D\u{1F467}"',
  "with noncharacters": '"\uFFFD\uFFFE\uFFFF\uFDD0"',
  "with marks that combine": '"e\u0301\u0302\u0303"',
  "with right-to-left marks": '"\u202Eabc\u2066\u05D0"',
  "with text of two bytes a character": '"\u043F\u0440\u0438\u0432\u0435\u0442"',
  "with what ends other languages' strings": `"'\`*/ --></script>\${1}%s"`,
  "with structure": '"}],:{[" ',
  "of a hundred thousand characters": `"${"x".repeat(100_000)}"`,
  "of a hundred thousand backslashes": `"${"\\".repeat(100_000)}"`,
  "of ten thousand escapes": `"${String.raw`\u0041`.repeat(10_000)}"`,
};

const unsound = [
  '"',
  '"a',
  'a"',
  '"a"b"',
  '"a" "b"',
  '"a"+"b"',
  '"""a"""',
  "'a'",
  "`a`",
  "\u201Ca\u201D",
  "\u00ABa\u00BB",
  'r"a"',
  'b"a"',
  'u"a"',
  String.raw`\"a\"`,
  String.raw`"\"`,
  String.raw`"\a"`,
  String.raw`"\v"`,
  String.raw`"\0"`,
  String.raw`"\x41"`,
  String.raw`"\'"`,
  String.raw`"\e"`,
  String.raw`"\ "`,
  String.raw`"\N"`,
  String.raw`"\u"`,
  String.raw`"\u0"`,
  String.raw`"\u00"`,
  String.raw`"\u004"`,
  String.raw`"\u004g"`,
  String.raw`"\u 041"`,
  String.raw`"\u{41}"`,
  String.raw`"\U0041"`,
  String.raw`"\u+041"`,
  String.raw`"\uD83D\u"`,
  String.raw`"\u\uD83D"`,
  '"\\\n"',
  '"\\\u00e9"',
];

const halves = [
  String.raw`"\ud800"`,
  String.raw`"\udbff"`,
  String.raw`"\udc00"`,
  String.raw`"\uDFFF"`,
  String.raw`"\ud800\ud800"`,
  String.raw`"\udc00\ud800"`,
  String.raw`"\ud800x\udc00"`,
  String.raw`"\ud83d\n\ude00"`,
  String.raw`"\ud83d\u0041"`,
  String.raw`"\ud83d\\ude00"`,
  String.raw`"\\\ud800"`,
  String.raw`"\ud83d\ude00\ud83d"`,
  String.raw`"\ud83d\ude00\ude00"`,
  String.raw`{"\ud800":1}`,
  String.raw`[[[{"a":["\udc00"]}]]]`,
];

/** Characters that must be escaped, unescaped: https://www.rfc-editor.org/rfc/rfc8259#section-7 */
function controls(): JsonCase[] {
  const codes = Array.from({ length: 0x20 }, (_, code) => code);
  const texts = codes.map((code): [string, string] => [
    `0x${code.toString(16)}`,
    `"a${String.fromCharCode(code)}b"`,
  ]);
  return casesOf("a raw control character", "body is not valid JSON", Object.fromEntries(texts));
}
