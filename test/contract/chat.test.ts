import { describe, expect, test } from "bun:test";
import { noText } from "../../src/contract/textSize.ts";
import { checkChatRequest, type ChatRequestRules } from "../../src/contract/chat/chatRequest.ts";
import { noPrice } from "../support/gateway/noPrice.ts";
import { refusalOf } from "./refusal.ts";

const forward: ChatRequestRules = {
  unknownFields: "forward",
  refusedFields: ["models", "plugins", "constructor"],
  extraReasoningEfforts: [],
  refusedTools: ["image_generation"],
  allowedTools: ["file_search", "code_interpreter", "audio"],
};
const reject: ChatRequestRules = { ...forward, unknownFields: "reject" };

const user = { role: "user" as const, content: "hello" };
const plain = { model: "m", messages: [user] };
const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
const tooLarge = "must be at most 9007199254740991";

type Fields = Record<string, unknown>;
/** Fields that are laid over a valid body (undefined takes one away), and the message; undefined where they are accepted. */
type Row = [fields: Fields, message: string | undefined];

async function messageOf(fields: Fields, rules: ChatRequestRules): Promise<string | undefined> {
  // A body as it comes from JSON.parse has no undefined members.
  const body = JSON.parse(JSON.stringify({ ...plain, ...fields }));
  const refusal = await refusalOf(() => checkChatRequest(body, rules));
  if (refusal === undefined) return undefined;
  expect(refusal.toBody()).toEqual({
    error: { message: refusal.message, type: "invalid_request_error" },
  });
  expect(refusal.status).toBe(400);
  return refusal.message;
}

function expectMessages(rows: readonly Row[], rules: ChatRequestRules): void {
  for (const [fields, expected] of rows) {
    test(`${shown(fields)}: ${expected ?? "accepted"}`, async () => {
      expect(await messageOf(fields, rules)).toBe(expected);
    });
  }
}

/** One message of a list; the others around it are fine. */
const message = (fields: Fields): Fields => ({ messages: [{ ...user, ...fields }] });

const roles = "messages[0].role must be one of: system, user, assistant, developer, tool";

/** Limits and odd types of the listed fields. The usual cases are sent over HTTP: test/http/chat/fieldRows.ts. */
const listed: Row[] = [
  [{ model: "m".repeat(256) }, undefined],
  [{ model: "m".repeat(257) }, "model must be at most 256 characters long"],
  [{ model: "a\u007f" }, "model must not contain control characters"],
  [{ model: "../a/b:c модель" }, undefined],
  [{ messages: null }, "messages must be an array"],
  [{ messages: { 0: user } }, "messages must be an array"],
  [{ messages: Array.from({ length: 10_000 }, () => user) }, undefined],
  [
    { messages: Array.from({ length: 10_001 }, () => user) },
    "messages must contain at most 10000 items",
  ],
  [{ messages: [user, null] }, "messages[1] must be an object"],
  [{ messages: [user, [user]] }, "messages[1] must be an object"],
  ...[null, "function", "User", 1].map((role): Row => [message({ role }), roles]),
  [message({ role: "assistant", content: undefined }), "messages[0].content is required"],
  [{ stream: 1 }, "stream must be a boolean"],
  [{ max_tokens: 0.5 }, "max_tokens must be an integer"],
  [{ max_tokens: [] }, "max_tokens must be an integer"],
  [{ max_tokens: Number.MAX_SAFE_INTEGER }, undefined],
  [{ max_tokens: 2 ** 53 }, `max_tokens ${tooLarge}`],
  [{ top_p: -1e-9 }, "top_p must be between 0 and 1"],
  [{ stop: {} }, "stop must be a string or an array of strings"],
  [{ stop: ["1", null] }, "stop[1] must be a string"],
  [{ stop: ["1", ""] }, "stop[1] must not be empty"],
  [{ stop: "x".repeat(1024) }, undefined],
  [{ stop: "x".repeat(1025) }, "stop must be at most 1024 characters long"],
  [{ stop: ["1", "ы".repeat(1024)] }, undefined],
  [{ stop: ["1", "ы".repeat(1025)] }, "stop[1] must be at most 1024 characters long"],
  ...["reasoning_effort", "verbosity", "reasoningSummary", "temperature", "top_p", "stop"].map(
    (name): Row => [{ [name]: null }, undefined],
  ),
];

describe.each([
  ["forward", forward],
  ["reject", reject],
])("fields of the request's table, unknown fields: %s", (_, rules) => {
  expectMessages(listed, rules);
});

describe("further fields, forwarded", () => {
  const missing = "messages[0].content is required";
  const noText = "messages[0].content must be a string or an array of parts";
  const part = (part: unknown): Fields => message({ content: [{ type: "text", text: "a" }, part] });
  const rows: Row[] = [
    ...[null, 5, {}].map((content): Row => [message({ content }), noText]),
    [message({ content: [] }), undefined],
    [part({ type: "text", text: "" }), undefined],
    [part({ type: "image_url", image_url: { url: "data:" } }), undefined],
    [part({ type: "made_up" }), undefined],
    [part("text"), "messages[0].content[1] must be an object"],
    [part({}), "messages[0].content[1].type is required"],
    [part({ type: 1 }), "messages[0].content[1].type must be a string"],
    [part({ type: "text", text: null }), "messages[0].content[1].text is required"],
    [part({ type: "text", text: 1 }), "messages[0].content[1].text must be a string"],
    // What else an assistant's message says stands in for its content.
    ...[
      { tool_calls: [call] },
      { refusal: "No." },
      { function_call: { name: "f" } },
      { audio: { id: "audio_1" } },
    ].flatMap((fields): Row[] => [
      [message({ role: "assistant", content: null, ...fields }), undefined],
      [message({ role: "assistant", content: undefined, ...fields }), undefined],
      [message({ role: "user", content: undefined, ...fields }), missing],
    ]),
    [message({ role: "user", content: null, tool_calls: [call] }), noText],
    [message({ role: "assistant", content: null, refusal: "" }), noText],
    ...[
      { tool_calls: [] },
      { tool_calls: null },
      { tool_calls: "x" },
      { audio: null, function_call: "f" },
      { refusal: ["No."] },
    ].map((fields): Row => [
      message({ role: "assistant", content: undefined, ...fields }),
      missing,
    ]),
    [message({ name: "bob", tool_call_id: 5 }), undefined],

    [{ n: 1.5 }, "n must be an integer"],
    [{ n: "2" }, "n must be an integer"],
    [{ n: null }, undefined],
    ...["max_completion_tokens", "max_output_tokens"].flatMap((name): Row[] => [
      [{ [name]: 1 }, undefined],
      [{ [name]: null }, undefined],
      [{ [name]: 0 }, `${name} must be at least 1`],
      [{ [name]: "1" }, `${name} must be an integer`],
      [{ [name]: 2 ** 53 }, `${name} ${tooLarge}`],
      [{ [name]: 5, max_tokens: 5 }, undefined],
      [{ [name]: 5, max_tokens: null }, undefined],
      [{ [name]: 5, max_tokens: 6 }, `max_tokens and ${name} must not differ`],
    ]),
    [
      { max_completion_tokens: 5, max_output_tokens: 6 },
      "max_completion_tokens and max_output_tokens must not differ",
    ],

    [{ stream_options: null }, undefined],
    [{ stream_options: {} }, undefined],
    [{ stream_options: { include_usage: null, other: 1 } }, undefined],
    [{ stream_options: true }, "stream_options must be an object"],
    [{ stream_options: [] }, "stream_options must be an object"],
    [
      { stream_options: { include_usage: "yes" } },
      "stream_options.include_usage must be a boolean",
    ],

    [{ service_tier: "" }, `service_tier is not supported: ${noPrice}`],
    [{ service_tier: ["auto"] }, `service_tier is not supported: ${noPrice}`],
    [{ background: null }, undefined],
    [{ background: "true" }, "background is not supported"],
    [{ models: ["a"] }, "models is not supported"],
    [{ models: [] }, "models is not supported"],
    [{ plugins: false }, "plugins is not supported"],
    [{ models: null, plugins: null }, undefined],
    [{ constructor: 1 }, "constructor is not supported"],

    [
      {
        tools: [{ type: "function" }],
        response_format: { type: "json_object" },
        user: 5,
        api_base: "http://x",
      },
      undefined,
    ],
  ];
  expectMessages(rows, forward);
});

describe("further fields, rejected", () => {
  const rows: Row[] = [
    [{ tools: [] }, "tools is not supported"],
    [{ tools: null }, "tools is not supported"],
    [{ stream_options: { include_usage: true } }, "stream_options is not supported"],
    [{ ["__proto__"]: 1 }, "__proto__ is not supported"],
    [{ toString: 1 }, "toString is not supported"],
    [{ ["x".repeat(100)]: 1 }, `${"x".repeat(64)}... is not supported`],
    [{ messages: [user, { ...user, tool_calls: [] }] }, "messages[1].tool_calls is not supported"],
    [
      message({ role: "assistant", content: undefined, tool_calls: [call] }),
      "messages[0].content is required",
    ],
  ];
  expectMessages(rows, reject);
});

describe("of several problems the first field's is named", () => {
  const problems: Readonly<Record<string, readonly [fields: Fields, message: string]>> = {
    "model before messages": [{ model: 5, messages: undefined }, "model must be a string"],
    "a wrong field before a missing later one": [
      { model: "", messages: [{}] },
      "model must not be empty",
    ],
    "messages before later fields": [
      { messages: [], temperature: 9, stop: [] },
      "messages must contain at least 1 item",
    ],
    "the table's order, not the body's": [
      { stop: [], temperature: 9 },
      "temperature must be between 0 and 2",
    ],
    "role before content": [
      message({ role: "x", content: undefined }),
      "messages[0].role must be one of: system, user, assistant, developer, tool",
    ],
    "an earlier message first": [
      { messages: [{ role: "user" }, { role: "x", content: "a" }] },
      "messages[0].content is required",
    ],
    "an earlier message first, without content and with a wrong part later": [
      {
        messages: [
          { role: "user", content: null },
          { role: "user", content: [{}] },
        ],
      },
      "messages[0].content must be a string or an array of parts",
    ],
    "a wrong value before a refused field": [{ n: 0, models: ["a"] }, "n must be between 1 and 8"],
    "a refused field before bounds that differ": [
      { max_tokens: 1, max_output_tokens: 2, models: ["a"] },
      "models is not supported",
    ],
  };
  test.each(Object.entries(problems))("%s", async (_, [fields, expected]) => {
    expect(await messageOf(fields, forward)).toBe(expected);
  });

  test("a known field before an unknown one", async () => {
    expect(await messageOf({ aaa: 1, stop: [] }, reject)).toBe("stop must contain 1 to 4 items");
  });
});

describe("max_tokens written as", () => {
  const written = (number: string): Fields => {
    const text = `{"model":"m","messages":[{"role":"user","content":""}],"max_tokens":${number}}`;
    return JSON.parse(text) as Fields;
  };

  test.each([
    ["1.0", 1],
    ["1e2", 100],
    ["12E0", 12],
  ])("%s is the integer %p", (number, expected) => {
    expect(checkChatRequest(written(number), forward).outputTokensBound).toBe(expected);
  });

  test.each([
    ["1e400", `max_tokens ${tooLarge}`],
    ["9007199254740993", `max_tokens ${tooLarge}`],
    ["-0", "max_tokens must be at least 1"],
  ])("%s: %s", async (number, expected) => {
    const refusal = await refusalOf(() => checkChatRequest(written(number), forward));
    expect(refusal?.message).toBe(expected);
  });
});

describe("the result", () => {
  const result = (fields: Fields) => checkChatRequest({ ...plain, ...fields }, forward);

  test("of a plain request", () => {
    const body = { ...plain };
    expect(checkChatRequest(body, forward)).toEqual({
      model: "m",
      stream: false,
      includeUsage: false,
      choiceCount: 1,
      outputTokensBound: undefined,
      stop: [],
      usesLongCacheTtl: false,
      serviceTier: "auto",
      extras: [],
      most: {},
      asked: [],
      toolCallsMax: undefined,
      messageCount: 1,
      promptSize: { ...noText, textBytes: 5 },
      fieldSizes: new Map(),
      needsWholeContext: false,
      objectIds: [],
      hasTools: false,
      effort: undefined,
      body,
    });
  });

  test("of a request with everything", () => {
    const all = result({
      stream: true,
      stream_options: { include_usage: true },
      n: 3,
      max_output_tokens: 7,
      stop: ["a", "b"],
    });
    expect(all).toMatchObject({
      stream: true,
      includeUsage: true,
      choiceCount: 3,
      outputTokensBound: 7,
      stop: ["a", "b"],
    });
  });

  test("takes the bound under each of its names", () => {
    for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
      expect(result({ [name]: 9 }).outputTokensBound).toBe(9);
    }
    expect(result({ max_tokens: null, max_completion_tokens: 4 }).outputTokensBound).toBe(4);
  });

  test("takes null for absent", () => {
    const nulls = result({
      stream: null,
      stream_options: null,
      n: null,
      max_tokens: null,
      stop: null,
    });
    expect(nulls).toMatchObject({ stream: false, includeUsage: false, choiceCount: 1, stop: [] });
    expect(nulls.outputTokensBound).toBeUndefined();
  });

  test("makes one stop sequence a list", () => {
    expect(result({ stop: "end" }).stop).toEqual(["end"]);
  });

  test("counts texts in bytes, parts that are not text, and ids of stored objects", () => {
    const measured = result({
      messages: [
        { role: "system", content: "é😀" },
        {
          role: "user",
          content: [
            { type: "text", text: "abc" },
            { type: "image_url", image_url: { url: `data:${"A".repeat(1000)}` } },
            { type: "file", file: { file_id: "file-1" } },
          ],
        },
        { role: "assistant", content: null, audio: { id: "audio_1" }, tool_calls: [{ id: "c" }] },
        { role: "assistant", content: [{ type: "refusal", refusal: "no" }] },
      ],
      tools: [{ name: "ёж", strict: true, tags: ["a", ["b"]] }],
    });
    expect(measured.messageCount).toBe(4);
    // é and 😀 6, abc 3, id and c 3, no 2, name and ёж 8, strict 6, tags, a and b 6.
    expect(measured.promptSize.textBytes).toBe(6 + 3 + 3 + 2 + 8 + 6 + 6);
    expect(measured.promptSize.nonTextParts).toBe(3);
    expect(measured.needsWholeContext).toBe(true);
    expect(measured.objectIds).toEqual(["file-1", "audio_1"]);
  });

  test("finds no stored object in the arguments of a tool call", () => {
    const input = { file_id: "file-1", more: { file_id: 7 } };
    const content = [{ type: "tool_use", id: "t", name: "f", input }];
    const messages = [{ role: "assistant", content }];
    expect(result({ messages }).objectIds).toEqual([]);
  });

  test.each<[string, unknown, boolean, string[]]>([
    ["none", undefined, false, []],
    ["null", null, false, []],
    ["the caller's own", [{ type: "function", function: { file_id: "x" } }], false, []],
    ["the provider's", [{ type: "web_search" }], true, []],
    [
      "the provider's on stored objects",
      [
        { type: "file_search", vector_store_ids: ["vs_1", "vs_2"] },
        { type: "code_interpreter", container: { type: "auto", file_ids: ["file-1"] } },
      ],
      true,
      ["vs_1", "vs_2", "file-1"],
    ],
  ])("knows what tools bring in: %s", (_, tools, needsWholeContext, ids) => {
    const measured = result({ tools });
    expect(measured.needsWholeContext).toBe(needsWholeContext);
    expect([...measured.objectIds].toSorted()).toEqual(ids.toSorted());
  });

  test.each([
    [[{ type: "url", url: "https://mcp.example" }], true],
    [null, false],
  ])("knows what servers bring in whose tools the provider calls: %j", (servers, expected) => {
    expect(result({ mcp_servers: servers }).needsWholeContext).toBe(expected);
  });

  test("refuses a tool that names a stored object by what is no id", async () => {
    const tools = [{ type: "file_search", vector_store_ids: [7] }];
    expect((await refusalOf(() => result({ tools })))?.message).toBe(
      "vector_store_ids must be a string",
    );
  });

  test("of instructions that stand in a field of their own", () => {
    expect(result({ system: "Be brief." }).promptSize.textBytes).toBe(5 + 9);
    expect(result({ system: [{ type: "text", text: "no" }] }).promptSize.textBytes).toBe(
      5 + 4 + 4 + 4 + 2,
    );
  });

  test("of tools nested a million deep: no recursion", () => {
    const depth = 1_000_000;
    const tools: unknown = JSON.parse(`${"[".repeat(depth)}"abc"${"]".repeat(depth)}`);
    expect(result({ tools }).promptSize.textBytes).toBe(5 + 3);
  });
});

function shown(fields: Fields): string {
  const text = JSON.stringify(fields, (_, value: unknown) => value ?? String(value));
  return text.length > 90 ? `${text.slice(0, 90)}...` : text;
}
