import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { parametersOf } from "../../../src/providers/chat/toolSchemas.ts";
import { gemini } from "../../../src/providers/gemini/gemini.ts";
import { sentFor } from "../conformance/reading.ts";

type Fields = Readonly<Record<string, unknown>>;

const text = { type: "string" };
const number = { type: "number" };
const empty = { type: "object", properties: {} };

describe("the parameters of a tool", () => {
  const object = (properties: object, required?: readonly string[]) => ({
    type: "object",
    properties,
    ...(required && { required }),
  });
  const one = { $ref: "#/$defs/a" };

  const reduced: Readonly<Record<string, readonly [given: Fields | undefined, sent: Fields]>> = {
    "that has none": [undefined, empty],
    "without anything": [{}, empty],
    "without properties": [{ type: "object" }, empty],
    "that may be null": [
      { type: ["object", "null"], properties: { a: text } },
      object({ a: text }),
    ],
    "without a type": [{ properties: { a: text }, required: ["a"] }, object({ a: text }, ["a"])],
    "with the empty list of PHP": [{ type: "object", properties: [] }, empty],
    "with true for properties": [{ type: "object", properties: true }, empty],
    "of another type": [{ type: "string" }, { ...empty, description: '{type: "string"}' }],
    "with values": [
      { type: "object", enum: [{}], description: "Nothing." },
      { ...empty, description: "Nothing.\n\n{enum: [{}]}" },
    ],
    "with variants": [
      {
        ...object({ at: text }, ["at"]),
        anyOf: [
          { properties: { a: text, k: { const: 1 } }, required: ["a", "k"] },
          { properties: { a: text, k: { const: 2 } }, required: ["k"] },
        ],
      },
      object({ at: text, a: text, k: { anyOf: [{ const: 1 }, { const: 2 }] } }, ["at", "k"]),
    ],
    "with closed variants or null": [
      { oneOf: [{ ...object({ a: text }), additionalProperties: false }, { type: "null" }] },
      { ...object({ a: text }), additionalProperties: false },
    ],
    "with parts": [
      {
        allOf: [
          { properties: { a: text }, required: ["a"] },
          { properties: { b: text }, required: ["b"] },
        ],
      },
      object({ a: text, b: text }, ["a", "b"]),
    ],
    "that is a definition": [
      { $ref: "#/$defs/a~1b", $defs: { "a/b": { title: "T", ...object({ a: text }, ["a"]) } } },
      { title: "T", ...object({ a: text }, ["a"]) },
    ],
    "whose definitions go in a circle": [
      { anyOf: [one], $defs: { a: { anyOf: [one, { properties: { a: text } }] } } },
      object({ a: text }),
    ],
  };
  test.each(Object.entries(reduced))("%s", (_name, [given, sent]) => {
    const before = JSON.stringify(given);
    const reducedOnce = parametersOf(given);
    expect(reducedOnce).toMatchObject(sent);
    expect(reducedOnce).toEqual(parametersOf(reducedOnce));
    expect(JSON.stringify(given)).toBe(before);
    expect(Object.keys(reducedOnce)).not.toContainAnyValues(["anyOf", "oneOf", "allOf", "$ref"]);
  });

  test("say in the description what was reduced", () => {
    const oneOf = [{ required: ["a"] }, { required: ["b"] }];
    const given = { type: "object", properties: { a: text, b: text }, oneOf };
    expect(parametersOf(given)).toEqual({
      type: "object",
      properties: { a: text, b: text },
      description: '{oneOf: [{"required":["a"]},{"required":["b"]}]}',
    });
  });

  test.each<[given: unknown, sent: unknown]>([
    [true, {}],
    [[], {}],
    [{ type: "array" }, { type: "array", items: {} }],
    [{ type: ["array", "null"] }, { type: ["array", "null"], items: {} }],
    [
      { type: "array", items: [] },
      { type: "array", items: {} },
    ],
    [
      { type: "array", items: [text, number], additionalItems: false },
      { type: "array", items: false, prefixItems: [text, number] },
    ],
    [
      { type: "number", minimum: 0, exclusiveMinimum: true },
      { type: "number", exclusiveMinimum: 0 },
    ],
    [
      { type: "number", maximum: 9, exclusiveMaximum: false },
      { type: "number", maximum: 9 },
    ],
    [{ type: "string", required: true }, text],
    [{ type: "any", title: "T" }, { title: "T" }],
    [{ type: "object", properties: [] }, empty],
    [{ anyOf: [{ type: "array" }, text] }, { anyOf: [{ type: "array", items: {} }, text] }],
  ])("a property %j becomes %j", (given, sent) => {
    expect(parametersOf({ type: "object", properties: { a: given } })).toEqual({
      type: "object",
      properties: { a: sent },
    });
  });

  test("that need no change are the same object", () => {
    const given = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { a: { type: "object" }, b: { type: "array", items: text }, c: { $ref: "#" } },
      additionalProperties: { anyOf: [text, { type: "null" }] },
    };
    expect(parametersOf(given)).toBe(given);
  });

  test("of a hostile client cost little", () => {
    const variants = Array.from({ length: 20_000 }, (_, index) => ({
      allOf: [{ $ref: "#/$defs/wide" }, { properties: { [`v${index}`]: {} } }],
    }));
    const members = Array.from({ length: 20_000 }, (_, index) => [`p${index}`, {}] as const);
    const wide = { properties: Object.fromEntries(members), required: Object.keys(members) };
    const doubled = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => {
        const next = { $ref: `#/$defs/d${index + 1}` };
        return [`d${index}`, { anyOf: [next, next, { allOf: [next, next] }] }] as const;
      }),
    );
    const started = performance.now();
    expect(parametersOf({ anyOf: variants, $defs: { wide } })).toMatchObject(empty);
    expect(parametersOf({ $ref: "#/$defs/d0", $defs: doubled })).toMatchObject(empty);
    expect(performance.now() - started).toBeLessThan(2000);
  });
});

const strictTool = (parameters: object, strict?: boolean) => ({
  tools: [{ type: "function", function: { name: "f", parameters, strict } }],
});
const formatOf = (schema: object) => ({
  response_format: { type: "json_schema", json_schema: { name: "answer", schema } },
});

describe("Claude's subset of schemas", () => {
  interface Sent {
    readonly tools?: readonly { readonly input_schema: Fields; readonly strict?: boolean }[];
    readonly output_config?: { readonly format: { readonly schema: Fields } };
  }
  const sent = (body: object) => JSON.parse(sentFor(anthropic.chat, body)) as Sent;
  const definition = { $ref: "#/$defs/a" };
  const closed = (properties: object, more: object = {}) => ({
    type: "object",
    properties,
    ...more,
    additionalProperties: false,
  });

  const number1 = { ...number, minimum: 1 };
  const inWords: Readonly<Record<string, readonly [given: object, reduced: object]>> = {
    "bounds of numbers": [
      { type: "integer", minimum: 0, maximum: 9 },
      { type: "integer", description: "{minimum: 0, maximum: 9}" },
    ],
    "bounds beside a description": [
      { type: "string", minLength: 2, description: "A name." },
      { type: "string", description: "A name.\n\n{minLength: 2}" },
    ],
    "many items": [
      { type: "array", items: text, minItems: 2 },
      { type: "array", items: text, description: "{minItems: 2}" },
    ],
    "an unknown format": [
      { type: "string", format: "color" },
      { type: "string", description: '{format: "color"}' },
    ],
    "one of several": [{ oneOf: [text, number] }, { anyOf: [text, number] }],
    "a described definition": [
      { allOf: [definition], title: "T" },
      { anyOf: [definition], title: "T" },
    ],
    "a reference with more": [{ ...definition, description: "x", default: 1 }, definition],
    values: [
      { type: "string", enum: ["a", "b"], default: "a" },
      { enum: ["a", "b"], description: '{default: "a"}' },
    ],
    "an object as a value": [
      { type: "object", const: {} },
      closed({}, { description: "{const: {}}" }),
    ],
    "an open object": [
      { type: "object", additionalProperties: number },
      closed({}, { description: '{additionalProperties: {"type":"number"}}' }),
    ],
    "an object that may be null": [
      { type: ["object", "null"], properties: { a: number1 } },
      { ...closed({ a: { ...number, description: "{minimum: 1}" } }), type: ["object", "null"] },
    ],
    "an object without a type": [{ properties: { a: text } }, closed({ a: text })],
    ...Object.fromEntries(
      [
        { type: "array", items: text, minItems: 1 },
        { type: "string", format: "date" },
      ].map((same) => [`${JSON.stringify(same)}, which stays`, [same, same]]),
    ),
  };
  test.each(Object.entries(inWords))("%s", (_name, [given, reduced]) => {
    const property = (schema: Fields) => (schema["properties"] as Fields)["p"];
    const schema = { type: "object", properties: { p: given }, $defs: { a: number1 } };
    const { output_config: config } = sent(formatOf(schema));
    expect(config?.format.schema).toEqual({
      ...closed({ p: reduced }),
      $defs: { a: { ...number, description: "{minimum: 1}" } },
    });
    const { tools } = sent(strictTool(schema, true));
    expect(tools).toMatchObject([{ strict: true }]);
    expect(property(tools?.[0]?.input_schema ?? {})).toEqual(reduced);
    // Only a strict tool is reduced.
    expect(sent(strictTool(schema)).tools).toEqual([
      expect.objectContaining({ input_schema: schema }),
    ]);
  });

  test("leaves the name of the dialect out, and a definition at the top with its definitions", () => {
    const schema = {
      $schema: "x",
      $ref: "#/definitions/a",
      definitions: { a: { type: "object" } },
    };
    expect(sent(formatOf(schema)).output_config?.format.schema).toEqual({
      $ref: "#/definitions/a",
      definitions: { a: closed({}) },
    });
  });

  const some = (count: number, schema: object) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, schema]));
  const required = (properties: object) =>
    closed(properties, { required: Object.keys(properties) });
  const union = { type: ["string", "null"] };
  const tree = { $ref: "#/$defs/tree" };
  const plain = required({});
  interface Request {
    readonly tools: readonly object[];
    readonly answer?: object;
    readonly strict: readonly boolean[];
  }
  const requests: Readonly<Record<string, Request>> = {
    "21 tools": {
      tools: Array.from({ length: 21 }, () => plain),
      strict: [...Array<boolean>(20).fill(true), false],
    },
    "25 optional properties": {
      tools: [closed(some(25, text)), closed(some(24, text))],
      strict: [false, true],
    },
    "those of the answer with them": {
      tools: [closed(some(20, text))],
      answer: closed(some(5, text)),
      strict: [false],
    },
    "17 unions": {
      tools: [required(some(9, union)), required(some(8, union))],
      strict: [true, false],
    },
    "nested ones": {
      tools: [required({ a: { type: "array", items: closed(some(25, text)) } })],
      strict: [false],
    },
    "a tree": {
      tools: [{ ...required({ a: tree }), $defs: { tree: required({ next: tree }) } }],
      strict: [false],
    },
    "a definition twice": {
      tools: [{ ...required({ a: tree, b: tree }), $defs: { tree: plain } }],
      strict: [true],
    },
  };
  test.each(Object.entries(requests))(
    "keeps strict within the limits of a request: %s",
    (_name, request) => {
      const { tools: schemas, answer = plain, strict } = request;
      const asked = schemas.flatMap((schema) => strictTool(schema, true).tools);
      const { tools } = sent({ tools: asked, ...formatOf(answer) });
      expect(tools?.map((tool) => tool.strict === true)).toEqual([...strict]);
      expect(tools?.map((tool) => tool.input_schema)).toEqual([...schemas] as Fields[]);
    },
  );

  test("passes what needs no change", () => {
    const schema = closed({
      a: { anyOf: [text, { type: "null" }] },
      b: { type: "array", items: closed({}) },
    });
    expect(sentFor(anthropic.chat, formatOf(schema))).toContain(JSON.stringify(schema));
  });
});

test("Gemini gets a reference alone", () => {
  const schema = {
    type: "object",
    properties: { a: { $ref: "#/$defs/a", description: "x" }, b: { $ref: "#/$defs/a" } },
    $defs: { a: text },
  };
  const sent = {
    ...schema,
    properties: {
      a: { description: "x", anyOf: [{ $ref: "#/$defs/a" }] },
      b: { $ref: "#/$defs/a" },
    },
  };
  expect(JSON.parse(sentFor(gemini.chat, strictTool(schema)))).toMatchObject({
    tools: [{ functionDeclarations: [{ parametersJsonSchema: sent }] }],
  });
  expect(JSON.parse(sentFor(gemini.chat, formatOf(schema)))).toMatchObject({
    generationConfig: { responseJsonSchema: sent },
  });
});
