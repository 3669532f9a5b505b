import { casesOf, plainCases, type JsonCase } from "./jsonCase.ts";

/** Objects, arrays, literals, and the characters between and after them. */
export function structureCases(): readonly JsonCase[] {
  return [
    ...plainCases("a structure", "accepted", sound),
    ...casesOf("a structure", "accepted", large()),
    ...plainCases("no structure", "body is not valid JSON", unsound),
    ...casesOf("no structure", "body is not valid JSON", {
      "a hundred thousand arrays that are not closed": "[".repeat(100_000),
      "a hundred thousand objects that are not closed": '{"a":'.repeat(100_000),
      "one bracket too few": nested(1000).slice(1),
      "one bracket too many": `${nested(1000)}]`,
      "the wrong bracket a thousand deep": nested(1000).replace("]", "}"),
    }),
    ...casesOf("white space", "accepted", whiteSpace),
    ...casesOf("no white space", "body is not valid JSON", noWhiteSpace()),
    ...plainCases("a key of another object", "accepted", otherKeys),
    ...casesOf("a key twice", "a stands twice", {
      "side by side": '{"a":1,"a":2}',
      "with one value": '{"a":1,"a":1}',
      escaped: String.raw`{"a":1,"\u0061":2}`,
      "far apart": `{"a":1,${members(500)},"a":2}`,
      "after an object that has it": '{"a":{"a":1},"b":[],"a":2}',
      "deep in arrays": '[[[{"b":1,"a":{}},{"a":[],"a":{}}]]]',
    }),
    ...casesOf("an odd key twice", "__proto__ stands twice", {
      "that objects inherit": '{"__proto__":1,"__proto__":2}',
    }),
  ];
}

const sound = [
  "{}",
  "[]",
  "[[]]",
  "[{}]",
  '{"":{}}',
  '{"":""}',
  "[null,true,false]",
  "null",
  "true",
  "false",
  '[0,"",[],{}]',
  '{"__proto__":{"stream":true},"constructor":1,"prototype":[],"toString":null}',
  '{"messages":[],"stream":true,"n":9,"max_tokens":-1}',
  '{"b":1,"a":2,"10":3,"9":4}',
];

function large(): Readonly<Record<string, string>> {
  return {
    "a thousand deep": nested(1000),
    "a hundred thousand deep": nested(100_000),
    "ten thousand objects deep": `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`,
    "of a thousand members": `{${members(1000)}}`,
    "of ten thousand items": `[${"0,".repeat(9999)}0]`,
  };
}

const unsound = [
  "",
  ",",
  ":",
  "[,]",
  "[1,]",
  "[,1]",
  "[1,,2]",
  "[1 2]",
  "[1;2]",
  "[1:2]",
  "{,}",
  '{"a":1,}',
  '{,"a":1}',
  '{"a":1,,"b":2}',
  '{"a"}',
  '{"a":}',
  "{:1}",
  '{"a"::1}',
  '{"a":1:2}',
  "{a:1}",
  "{1:1}",
  "{null:1}",
  '{["a"]:1}',
  '{"a" 1}',
  '{"a"=1}',
  '{"a"=>1}',
  '{"a":1 "b":2}',
  '{"a":1;"b":2}',
  "{'a':1}",
  "[}",
  "{]",
  "[1}",
  '{"a":1]',
  "]",
  "}",
  "[[]",
  "{{}}",
  "[1]]",
  '{"a":1}}',
  "(1)",
  "<1>",
  "[...[1]]",
  "@",
  "1 2",
  "{} {}",
  "[][]",
  "{}\n{}",
  "{};",
  "TRUE",
  "True",
  "tru",
  "truefalse",
  "nulll",
  "nil",
  "None",
  "undefined",
  "new Date()",
  "function(){}",
  "/a/",
];

const whiteSpace: Readonly<Record<string, string>> = {
  blanks: '  { "a" : [ 1 , 2 ] }  ',
  tabs: '\t{\t"a"\t:\t1\t}\t',
  "line feeds": '\n{\n"a"\n:\n1\n}\n',
  "carriage returns": '\r{\r"a"\r:\r1\r}\r',
  "lines of Windows": '\r\n{\r\n"a"\r\n:\r\n1\r\n}\r\n',
  "ten thousand blanks": `[${" ".repeat(10_000)}]`,
};

/** What other notations skip before a value. */
function noWhiteSpace(): Readonly<Record<string, string>> {
  const codes = [
    0, 0x0b, 0x0c, 0x1f, 0x7f, 0x85, 0xa0, 0xad, 0x1680, 0x180e, 0x2003, 0x200b, 0x2028, 0x2029,
    0x202f, 0x2060, 0x3000,
  ];
  const texts = codes.map((code): [string, string] => [
    `U+${code.toString(16)}`,
    `[${String.fromCharCode(code)}1]`,
  ]);
  return {
    ...Object.fromEntries(texts),
    "a comment to the line's end": "[1 // one\n]",
    "a comment in between": "[1 /* one */]",
    "a comment of the shell": "# one\n1",
    "a comment of markup": "<!-- one -->1",
    "a comment that does not end": "[1] /*",
    "a record separator": "\u001e{}",
    "a guard against other sites": ")]}',\n{}",
    "a backslash": "[1]\\",
  };
}

const otherKeys = [
  '{"a":{"a":{"a":1}}}',
  '[{"a":1},{"a":1}]',
  '{"a":1,"A":2}',
  '{"a":1,"a ":2,"\\u0000a":3}',
  '{"\u00e9":1,"e\u0301":2}',
  '{"a":"a","b":"a"}',
  '{"a":["a","a"]}',
  '{"":1," ":2}',
];

function nested(depth: number): string {
  return "[".repeat(depth) + "]".repeat(depth);
}

function members(count: number): string {
  return Array.from({ length: count }, (_, at) => `"member ${at}":${at}`).join(",");
}
