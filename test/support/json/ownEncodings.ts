import { casesOf, type JsonCase } from "./jsonCase.ts";

/** Bytes that are no UTF-8, and texts that are none either. */
export function encodingCases(): readonly JsonCase[] {
  const inString = Object.entries(noUtf8).map(([name, bytes]): [string, Buffer] => [
    name,
    Buffer.concat([Buffer.from('"a'), Buffer.from(bytes), Buffer.from('b"')]),
  ]);
  return [
    ...casesOf("no UTF-8", "request body is not valid UTF-8", Object.fromEntries(inString)),
    ...casesOf("no UTF-8", "request body is not valid UTF-8", {
      "before a text": Buffer.from([0xff, 0x7b, 0x7d]),
      "after a text": Buffer.from([0x7b, 0x7d, 0xff]),
      "in a key": Buffer.from([0x7b, 0x22, 0xe9, 0x22, 0x3a, 0x31, 0x7d]),
      "UTF-16, big end first, with its mark": Buffer.from([0xfe, 0xff, 0, 0x7b, 0, 0x7d]),
      "UTF-16, little end first, with its mark": Buffer.from([0xff, 0xfe, 0x7b, 0, 0x7d, 0]),
    }),
    ...casesOf("another encoding", "body is not valid JSON", {
      "UTF-16, big end first": Buffer.from([0, 0x7b, 0, 0x7d]),
      "UTF-16, little end first": Buffer.from([0x7b, 0, 0x7d, 0]),
      "UTF-32, big end first": Buffer.from([0, 0, 0, 0x7b, 0, 0, 0, 0x7d]),
      "UTF-32, little end first": Buffer.from([0x7b, 0, 0, 0, 0x7d, 0, 0, 0]),
      "UTF-7": "+AHs-+AH0-",
      "a byte order mark before an object": "\uFEFF{}",
      "a byte order mark before a string": '\uFEFF"a"',
      "a byte order mark after a text": "{}\uFEFF",
      "two byte order marks": "\uFEFF\uFEFF{}",
    }),
  ];
}

/** By the table of https://www.unicode.org/versions/Unicode16.0.0/core-spec/chapter-3/#G27506 */
const noUtf8: Readonly<Record<string, readonly number[]>> = {
  "the first continuation byte": [0x80],
  "the last continuation byte": [0xbf],
  "an overlong NUL": [0xc0, 0x80],
  "an overlong slash": [0xc0, 0xaf],
  "an overlong quote": [0xc0, 0xa2],
  "an overlong DEL": [0xc1, 0xbf],
  "two bytes without the second": [0xc3],
  "two bytes before two others": [0xc3, 0xa9, 0xa9],
  "an overlong NUL of three bytes": [0xe0, 0x80, 0x80],
  "an overlong one of three bytes": [0xe0, 0x9f, 0xbf],
  "three bytes without the third": [0xe2, 0x82],
  "the first half of a pair": [0xed, 0xa0, 0x80],
  "the last half of a pair": [0xed, 0xbf, 0xbf],
  "a pair of halves": [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80],
  "an overlong one of four bytes": [0xf0, 0x8f, 0xbf, 0xbf],
  "four bytes without the fourth": [0xf0, 0x9f, 0x98],
  "four bytes without three": [0xf0],
  "the first beyond the last character": [0xf4, 0x90, 0x80, 0x80],
  "a fifth plane too many": [0xf5, 0x80, 0x80, 0x80],
  "five bytes": [0xf8, 0x88, 0x80, 0x80, 0x80],
  "six bytes": [0xfc, 0x84, 0x80, 0x80, 0x80, 0x80],
  "0xfe": [0xfe],
  "0xff": [0xff],
  "Latin-1": [0xe9],
  "Windows-1251": [0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2],
};
