import { describe, expect, test } from "bun:test";
import { gemini } from "../../../src/providers/gemini/gemini.ts";
import { UnsupportedRequestError } from "../../../src/providers/provider.ts";
import { hello, notSupported, sentFor } from "../conformance/reading.ts";

interface Encoded {
  readonly contents: readonly { role: string; parts: readonly Record<string, unknown>[] }[];
  readonly tools?: unknown;
  readonly toolConfig?: unknown;
}

function encoded(body: object, model = "gemini-2.5-flash"): Encoded {
  return JSON.parse(sentFor(gemini.chat, body, { model })) as Encoded;
}

function toolCall(id: string, name: string, more: object = {}): object {
  return { id, type: "function", function: { name, arguments: "{}" }, ...more };
}

function calling(...calls: readonly object[]): object {
  return { role: "assistant", content: null, tool_calls: calls };
}

function result(id: string, content: unknown): object {
  return { role: "tool", tool_call_id: id, content };
}

function signed(signature: unknown): object {
  return { extra_content: { google: { thought_signature: signature } } };
}

describe("tools", () => {
  test("keep their JSON schemas as they are", () => {
    const parameters = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { city: { type: ["string", "null"] } },
      properties: { city: { $ref: "#/$defs/city" }, at: { anyOf: [{ const: 1 }, {}] } },
      additionalProperties: false,
    };
    const tools = [
      { type: "function", function: { name: "weather", parameters, strict: true } },
      { type: "function", function: { name: "clock", description: "Tells the time" } },
    ];
    expect(encoded({ tools })).toMatchObject({
      tools: [
        {
          functionDeclarations: [
            { name: "weather", parametersJsonSchema: parameters },
            { name: "clock", description: "Tells the time" },
          ],
        },
      ],
    });
    expect(encoded({ tools }).toolConfig).toBeUndefined();
  });

  test.each<[object, object]>([
    [{ googleSearch: {} }, { googleSearch: {} }],
    [{ google_search: { timeRangeFilter: {} } }, { googleSearch: { timeRangeFilter: {} } }],
    [{ type: "google_search" }, { googleSearch: {} }],
    [{ google_maps: null }, { googleMaps: {} }],
  ])("of Google that its answers count are sent: %j", (tool, sent) => {
    expect(encoded({ tools: [tool] })).toMatchObject({ tools: [sent] });
    const clock = { type: "function", function: { name: "clock" } };
    expect(encoded({ tools: [clock, tool] })).toMatchObject({
      tools: [sent, { functionDeclarations: [{ name: "clock" }] }],
    });
  });

  test.each([{ type: "code_execution" }, { googleSearch: {}, codeExecution: {} }])(
    "of Google that its answers do not count are refused: %j",
    (tool) => {
      expect(() => encoded({ tools: [tool] })).toThrow(UnsupportedRequestError);
    },
  );
});

describe("tools that are allowed", () => {
  const tools = ["weather", "clock", "mail"].map((name) => ({
    type: "function",
    function: { name },
  }));
  const allowing = (mode: unknown, ...allowed: readonly unknown[]) => ({
    tools,
    tool_choice: { type: "allowed_tools", allowed_tools: { mode, tools: allowed } },
  });

  test.each([
    ["required", "ANY"],
    ["auto", "VALIDATED"],
  ])("of the mode %s are the only ones that can be called", (mode, expected) => {
    const { toolConfig, tools: declared } = encoded(allowing(mode, tools[0], tools[2]));
    expect(toolConfig).toEqual({
      functionCallingConfig: { mode: expected, allowedFunctionNames: ["weather", "mail"] },
    });
    expect(JSON.stringify(declared)).toContain("clock");
  });

  test.each([
    allowing("never", tools[0]),
    allowing(undefined, tools[0]),
    allowing("auto"),
    allowing("auto", null),
    allowing("auto", { type: "custom", custom: { name: "weather" } }),
    allowing("auto", { type: "function", function: {} }),
    { tools, tool_choice: { type: "allowed_tools" } },
  ])("are refused if the list is empty: %j", (body) => {
    expect(() => encoded(body)).toThrow(notSupported("tool_choice"));
  });
});

describe("results", () => {
  const parts = (...messages: readonly object[]) =>
    encoded({ messages: [hello, ...messages] })
      .contents.at(-1)
      ?.parts.map((part) => part["functionResponse"]);

  test.each<[unknown, object]>([
    ["sunny", { output: "sunny" }],
    ["", { output: "" }],
    ['{"sky":"blue","error":null}', { sky: "blue", error: null }],
    ["[1,2]", { output: "[1,2]" }],
    ["17", { output: "17" }],
    ["null", { output: "null" }],
    ['{"sky":', { output: '{"sky":' }],
    [
      [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
      { output: "ab" },
    ],
  ])("with the text %j are objects", (content, response) => {
    expect(parts(calling(toolCall("a", "weather")), result("a", content))).toEqual([
      { id: "a", name: "weather", response },
    ]);
  });

  test.each<[string, string]>([
    [
      "a table of a megabyte",
      '"id","name"\n' + Array.from({ length: 70_000 }, (_, row) => `"r${row}","n"\n`).join(""),
    ],
    ["a long list", JSON.stringify(Array.from({ length: 70_000 }, (_, row) => ({ i: `r${row}` })))],
  ])("that are long, such as %s, do not change the numbers of a later call", (_, text) => {
    const later = toolCall("b", "clock", { function: { name: "clock", arguments: '{"new":1}' } });
    const messages = [hello, calling(toolCall("a", "weather")), result("a", text), calling(later)];
    const { contents } = encoded({ messages });
    expect(contents.at(-1)?.parts).toMatchObject([{ functionCall: { args: { new: 1 } } }]);
  });

  test("of parallel calls are together, each with its own name", () => {
    const calls = calling(toolCall("a", "weather"), toolCall("b", "clock"));
    const { contents } = encoded({
      messages: [hello, calls, result("b", "noon"), result("a", "sunny"), hello],
    });
    expect(contents.map(({ role }) => role)).toEqual(["user", "model", "user", "user"]);
    expect(contents[2]?.parts).toMatchObject([
      { functionResponse: { id: "b", name: "clock" } },
      { functionResponse: { id: "a", name: "weather" } },
    ]);
  });

  test("have the name of the latest call with their id", () => {
    expect(
      parts(
        calling(toolCall("a", "weather")),
        result("a", "sunny"),
        calling(toolCall("a", "clock")),
        result("a", "noon"),
      ),
    ).toMatchObject([{ name: "clock" }]);
  });

  test("of an unknown call are refused", () => {
    expect(() => parts(result("a", "sunny"))).toThrow(
      new UnsupportedRequestError("messages[1].tool_call_id names no call before it"),
    );
  });
});

describe("the signatures of reasoning", () => {
  const signaturesOf = (model: string, ...messages: readonly object[]) =>
    encoded({ messages: [hello, ...messages] }, model).contents.flatMap(({ parts }) =>
      parts.map((part) => part["thoughtSignature"]),
    );
  const two = (more: object = {}) =>
    calling(toolCall("a", "weather", more), toolCall("b", "clock"));
  const skip = "skip_thought_signature_validator";

  test.each([
    ["gemini-2.5-flash", undefined],
    ["gemini-3-flash-preview", skip],
    ["gemini-pro-latest", skip],
  ])("that a client dropped are replaced if %s requires them", (model, expected) => {
    const messages = [two(), result("a", "x"), result("b", "x"), two()];
    expect(signaturesOf(model, ...messages)).toEqual([
      undefined,
      expected,
      undefined,
      undefined,
      undefined,
      expected,
      undefined,
    ]);
  });

  test.each(["gemini-2.5-flash", "gemini-3-flash-preview"])("return to %s", (model) => {
    expect(signaturesOf(model, two(signed("c2ln")))).toEqual([undefined, "c2ln", undefined]);
  });

  test.each([[null], [5], [""], [{}]])("that are %j are ignored", (signature) => {
    expect(signaturesOf("gemini-3-pro", two(signed(signature)))).toEqual([
      undefined,
      skip,
      undefined,
    ]);
  });

  test("of a text are on its last part", () => {
    const content = [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
      { type: "text", text: "" },
    ];
    const message = { role: "assistant", content, ...signed("c2ln") };
    expect(signaturesOf("gemini-2.5-pro", message)).toEqual([undefined, undefined, "c2ln"]);
  });
});
