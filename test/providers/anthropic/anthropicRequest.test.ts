import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { UnsupportedRequestError } from "../../../src/providers/provider.ts";
import { callOf, hello, notSupported, sentFor } from "../conformance/reading.ts";

type Fields = Readonly<Record<string, unknown>>;

const cache = { cache_control: { type: "ephemeral", ttl: "5m" } };
const text = (value: string) => ({ type: "text", text: value });
const called = (id: string, given = "{}") => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id, type: "function", function: { name: "f", arguments: given } }],
});
const result = (id: string, content: unknown) => ({ role: "tool", tool_call_id: id, content });
const toolUse = (id: string, input = {}) => ({ type: "tool_use", id, name: "f", input });

function encoded(fields: object): string {
  return sentFor(anthropic.chat, fields);
}

function sent(fields: object): Fields {
  return JSON.parse(encoded(fields)) as Fields;
}

function messagesOf(...messages: readonly object[]): unknown {
  return sent({ messages })["messages"];
}

test("the headers have the key, if there is one, and each chat has the version", () => {
  expect(anthropic.headers("sk-ant-1")).toEqual({ "x-api-key": "sk-ant-1" });
  expect(anthropic.headers(undefined)).toEqual({});
  const chat = anthropic.chat.encode(callOf(JSON.stringify({ messages: [hello] })));
  expect(chat.headers).toEqual({ "anthropic-version": "2023-06-01" });
});

test("a refusal in the history is sent before the calls beside it", () => {
  const refused = { role: "assistant", content: null, refusal: "No." };
  expect(messagesOf(hello, { ...refused, content: "" }, hello)).toMatchObject([
    { role: "user" },
    { role: "assistant", content: [text("No.")] },
    { role: "user" },
  ]);
  const both = { ...called("call_1"), refusal: "No." };
  expect(messagesOf(hello, both, result("call_1", "x"))).toMatchObject([
    { role: "user" },
    { role: "assistant", content: [text("No."), toolUse("call_1")] },
    { role: "user" },
  ]);
  expect(messagesOf(hello, refused, hello)).toMatchObject([
    { role: "user" },
    { role: "assistant", content: [text("No.")] },
    { role: "user" },
  ]);
});

test("a plain request gets the held tokens as its bound", () => {
  expect(encoded({})).toBe(
    '{"model":"model-of-the-provider","max_tokens":64000,"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}',
  );
});

test("the caller's bound is sent unchanged", () => {
  const bounds = { outputTokensBound: 10, outputTokensMax: 20 };
  expect(JSON.parse(sentFor(anthropic.chat, {}, bounds))).toMatchObject({ max_tokens: 10 });
});

describe("messages", () => {
  test("of one side become one turn", () => {
    const assistant = { role: "assistant", content: "a" };
    expect(messagesOf(hello, hello, assistant, assistant, hello)).toEqual([
      { role: "user", content: [text("hello"), text("hello")] },
      { role: "assistant", content: [text("a"), text("a")] },
      { role: "user", content: [text("hello")] },
    ]);
  });

  test("with blank texts are left out, and sides still alternate", () => {
    const blank = { role: "assistant", content: " \n" };
    expect(messagesOf(hello, blank, hello)).toEqual([
      { role: "user", content: [text("hello"), text("hello")] },
    ]);
  });

  test("results of calls are first in their turn", () => {
    const calls = {
      ...called("a"),
      tool_calls: [...called("a").tool_calls, ...called("b").tool_calls],
    };
    expect(messagesOf(hello, calls, result("a", "1"), hello, result("b", " "))).toEqual([
      { role: "user", content: [text("hello")] },
      { role: "assistant", content: [toolUse("a"), toolUse("b")] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: [text("1")] },
          { type: "tool_result", tool_use_id: "b" },
          text("hello"),
        ],
      },
    ]);
  });

  test("ids with other characters are escaped the same in call and result", () => {
    expect(messagesOf(hello, called("functions.f:0"), result("functions.f:0", "1"))).toMatchObject([
      {},
      { content: [{ id: "functions_2e_f_3a_0" }] },
      { content: [{ tool_use_id: "functions_2e_f_3a_0" }] },
    ]);
  });

  test("arguments keep their digits", () => {
    const body = encoded({
      messages: [hello, called("a", '{"id":12345678901234567890}'), result("a", "1")],
    });
    expect(body).toContain('"input":{"id":12345678901234567890}');
  });

  test("of the assistant may come first, and last without blanks at their end", () => {
    expect(messagesOf({ role: "assistant", content: "It is  \n" })).toEqual([
      { role: "user", content: [text("(no message)")] },
      { role: "assistant", content: [text("It is")] },
    ]);
  });

  test("of the user keep the blanks at their end", () => {
    const said = { role: "user", content: "It is  \n" };
    expect(messagesOf(said)).toEqual([{ role: "user", content: [text("It is  \n")] }]);
  });

  test("with only instructions become the user's content", () => {
    const { system, messages } = sent({ messages: [{ role: "system", content: "Say hello." }] });
    expect([system, messages]).toEqual([
      undefined,
      [{ role: "user", content: [text("Say hello.")] }],
    ]);
  });

  test("without any content are refused", () => {
    expect(() => messagesOf({ role: "user", content: " " })).toThrow(
      new UnsupportedRequestError(
        "messages without a text are not supported by this model's provider",
      ),
    );
  });

  test("signed thinking blocks are sent back before their call, unsigned ones are not", () => {
    const signed = { type: "thinking", thinking: "Hm.", signature: "sig" };
    const hidden = { type: "redacted_thinking", data: "EmwK" };
    const strangers = [{ type: "thinking", thinking: "x" }, { type: "text", text: "x" }, null, "x"];
    const thinking_blocks = [{ ...signed, index: 0 }, ...strangers, hidden];
    expect(messagesOf(hello, { ...called("a"), thinking_blocks }, result("a", "1"))).toMatchObject([
      {},
      { role: "assistant", content: [signed, hidden, toolUse("a")] },
      {},
    ]);
  });
});

describe("a mark of the prompt cache beside the content of a message", () => {
  const image = {
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "AA==" },
  };
  const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
  const reasoning = { type: "thinking", thinking: "Hm.", signature: "EqQB" };

  const marked: Readonly<Record<string, readonly [message: object, sent: object]>> = {
    "of the user": [
      { role: "user", content: "x" },
      { ...text("x"), ...cache },
    ],
    "with parts": [
      { role: "user", content: [text("x"), picture] },
      { ...image, ...cache },
    ],
    "of a tool": [
      { role: "tool", tool_call_id: "a", content: [text("x"), text("y")] },
      { type: "tool_result", tool_use_id: "a", content: [text("x"), text("y")], ...cache },
    ],
    "of the assistant": [
      { role: "assistant", content: "x" },
      { ...text("x"), ...cache },
    ],
    "with a call": [
      { ...called("a"), content: "x" },
      { ...toolUse("a"), ...cache },
    ],
    "with reasoning last": [
      { role: "assistant", content: [text("x")], thinking_blocks: [reasoning] },
      { ...text("x"), ...cache },
    ],
  };
  test.each(Object.entries(marked))("%s is on its last block", (_name, [message, block]) => {
    const sentMessages = messagesOf({ ...message, ...cache }) as { content: unknown[] }[];
    expect(sentMessages.at(-1)?.content.at(-1)).toEqual(block);
    const others = JSON.stringify(sentMessages).replace(JSON.stringify(block), "");
    expect(others).not.toContain("cache_control");
  });

  test("on a part of a tool's result is on the result, where alone it is allowed", () => {
    const parts = [{ ...text("x"), ...cache }, text("y"), { ...picture, ...cache }];
    const results = messagesOf(called("a"), { role: "tool", tool_call_id: "a", content: parts });
    expect((results as { content: unknown[] }[]).at(-1)?.content).toEqual([
      {
        type: "tool_result",
        tool_use_id: "a",
        content: [text("x"), text("y"), image],
        ...cache,
      },
    ]);
  });

  test("of the system is there too, and a mark of a part stays", () => {
    const own = { cache_control: { type: "ephemeral" } };
    const system = { role: "system", content: [text("x"), { ...text("y"), ...own }], ...cache };
    const plain = { role: "system", content: "z", ...cache };
    expect(sent({ messages: [system, plain, hello] })["system"]).toEqual([
      text("x"),
      { ...text("y"), ...own },
      { ...text("z"), ...cache },
    ]);
  });

  test("of a tool may be in its function", () => {
    const tool = { type: "function", function: { name: "f", ...cache } };
    expect(sent({ tools: [tool] })["tools"]).toEqual([
      { name: "f", input_schema: { type: "object", properties: {} }, ...cache },
    ]);
  });

  test("is left out where parts, tools and later messages have four", () => {
    const tool = { type: "function", function: { name: "f" }, ...cache };
    const marked = ["a", "b", "c", "d"].map((content) =>
      Object.assign({ role: "user", content }, cache),
    );
    const first = { role: "user", content: [{ ...text("0"), ...cache }] };
    const body = encoded({ messages: [first, ...marked], tools: [tool] });
    expect(body.split("cache_control")).toHaveLength(5);
    expect(body.slice(body.indexOf('"a"'), body.indexOf('"c"'))).not.toContain("cache_control");
  });
});

test("JSON without a schema is asked for by the same instruction each time", () => {
  const response_format = { type: "json_object" };
  const system = [{ role: "system", content: "Be kind." }];
  const { system: alone, output_config: none } = sent({ response_format });
  expect(none).toBeUndefined();
  expect(alone).toMatchObject([{ type: "text", text: expect.stringContaining("one JSON object") }]);
  expect(sent({ response_format, messages: [...system, hello] })["system"]).toEqual([
    text("Be kind."),
    ...(alone as unknown[]),
  ]);
  expect(() => sent({ response_format, system: "x" })).toThrow(
    notSupported("system beside response_format"),
  );
});

describe("parts", () => {
  const partOf = (part: object): unknown =>
    (messagesOf({ role: "user", content: [part] }) as { content: unknown[] }[])[0]?.content[0];

  test("cache_control is kept on parts, tools and instructions", () => {
    const part = { ...text("x"), ...cache };
    expect(partOf(part)).toEqual(part);
    const tool = { type: "function", function: { name: "f" }, ...cache };
    const { system, tools } = sent({
      messages: [{ role: "system", content: [part] }, hello],
      tools: [tool],
    });
    expect([system, tools]).toEqual([
      [part],
      [{ name: "f", input_schema: { type: "object", properties: {} }, ...cache }],
    ]);
  });

  test.each([
    [
      { file_data: "data:application/pdf;base64,AA==", filename: "a.pdf" },
      { source: { type: "base64", media_type: "application/pdf", data: "AA==" }, title: "a.pdf" },
    ],
    [
      { file_data: "data:text/plain;base64,aGVsbG8=" },
      { source: { type: "text", media_type: "text/plain", data: "hello" } },
    ],
    [
      { file_data: "https://a.example/b.pdf" },
      { source: { type: "url", url: "https://a.example/b.pdf" } },
    ],
  ])("the file %j is a document", (file, document) => {
    expect(partOf({ type: "file", file })).toEqual({ type: "document", ...document });
  });

  test.each([
    ["file", { file: { file_data: "data:application/zip;base64,AA==" } }],
    ["input_audio", { input_audio: { data: "AA==", format: "wav" } }],
  ])("a %s of another kind is refused", (type, rest) => {
    expect(() => partOf({ type, ...rest })).toThrow(
      notSupported(`messages[0].content[0] of the type ${type}`),
    );
  });

  test("an audio answer of another provider is refused", () => {
    const spoken = { role: "assistant", content: "", audio: { id: "audio_1" } };
    expect(() => messagesOf(hello, spoken, hello)).toThrow(notSupported("messages[1].audio"));
    expect(() => messagesOf(hello, { ...spoken, audio: null }, hello)).not.toThrow();
  });

  test("an image may be in a result, but not in instructions or an answer", () => {
    const image = { type: "image_url", image_url: { url: "https://a.example/b.png" } };
    const block = { type: "image", source: { type: "url", url: "https://a.example/b.png" } };
    expect(messagesOf(hello, called("a"), result("a", [image]))).toMatchObject([
      {},
      {},
      { content: [{ type: "tool_result", content: [block] }] },
    ]);
    for (const role of ["system", "assistant"]) {
      expect(() => messagesOf(hello, { role, content: [image] })).toThrow(UnsupportedRequestError);
    }
  });
});

describe("other fields", () => {
  const tools = [{ type: "function", function: { name: "f", strict: true } }];

  test.each<[object, unknown]>([
    [{}, undefined],
    [{ tool_choice: "none" }, undefined],
    [{ tool_choice: "auto" }, undefined],
    [{ parallel_tool_calls: false }, undefined],
    [{ tools, parallel_tool_calls: true }, undefined],
    [{ tools, tool_choice: "none", parallel_tool_calls: false }, { type: "none" }],
    [
      { tools, tool_choice: "required", parallel_tool_calls: false },
      { type: "any", disable_parallel_tool_use: true },
    ],
    [
      {
        tools,
        tool_choice: { type: "function", function: { name: "f" } },
        parallel_tool_calls: false,
      },
      { type: "tool", name: "f", disable_parallel_tool_use: true },
    ],
  ])("%j make the choice %j", (fields, choice) => {
    expect(sent(fields)["tool_choice"]).toEqual(choice);
  });

  test("a choice among some of the tools is refused", () => {
    const tool_choice = { type: "allowed_tools", allowed_tools: { mode: "auto", tools } };
    expect(() => sent({ tools, tool_choice })).toThrow(notSupported("tool_choice"));
  });

  test("a strict tool stays strict", () => {
    expect(sent({ tools })["tools"]).toMatchObject([{ name: "f", strict: true }]);
  });

  test.each<[object, unknown]>([
    [{ metadata: { a: "b" } }, undefined],
    [{ metadata: { user_id: "u" } }, { user_id: "u" }],
    [{ safety_identifier: "s", metadata: { user_id: "u" } }, { user_id: "s" }],
    [{ user: "x", safety_identifier: "s" }, { user_id: "x" }],
    [{ user: null }, undefined],
  ])("%j give the user id %j", (fields, metadata) => {
    expect(sent(fields)["metadata"]).toEqual(metadata);
  });

  test("the default tier is the provider's standard tier", () => {
    expect(sent({ service_tier: "default" })["service_tier"]).toBe("standard_only");
    expect(sent({ service_tier: "auto" })["service_tier"]).toBeUndefined();
  });

  test("a temperature over 1 is sent unchanged", () => {
    expect(sent({ temperature: 1.7 })["temperature"]).toBe(1.7);
  });

  test("the client's output_config wins over other fields", () => {
    const schema = { type: "object", properties: {}, additionalProperties: false };
    const response_format = { type: "json_schema", json_schema: { name: "n", schema } };
    expect(sent({ response_format, output_config: { effort: "max" } })["output_config"]).toEqual({
      effort: "max",
      format: { type: "json_schema", schema },
    });
  });

  test("fields of the convention without a counterpart are left out", () => {
    const fields = {
      seed: 1,
      logprobs: true,
      top_logprobs: 2,
      presence_penalty: 1,
      frequency_penalty: 1,
      logit_bias: {},
      store: false,
      verbosity: "low",
      reasoningSummary: "auto",
      prediction: {},
      prompt_cache_key: "x",
      prompt_cache_options: { mode: "explicit" },
      moderation: { model: "omni-moderation-latest" },
      modalities: ["text"],
      stream_options: { include_usage: true },
    };
    expect(encoded(fields)).toBe(encoded({}));
  });

  test.each([
    ["n", 2],
    ["web_search_options", {}],
    ["modalities", ["text", "audio"]],
    ["functions", []],
    ["function_call", "auto"],
    ["container", "container_1"],
    ["fallbacks", [{ model: "claude-2" }]],
    ["fallback_credit_token", "token_1"],
    ["thread", "thread_1"],
    ["user_profile_id", "profile_1"],
    ["workspace_id", "workspace_1"],
  ])("%s is refused because it changes the answer", (name, value) => {
    expect(() => sent({ [name]: value })).toThrow(notSupported(name));
  });

  test("a region is sent", () => {
    expect(sent({ inference_geo: "global" })).toMatchObject({ inference_geo: "global" });
  });

  test("instructions may be in the native field, but not in both", () => {
    expect(sent({ system: "Be brief." })["system"]).toBe("Be brief.");
    const messages = [{ role: "system", content: "Be kind." }, hello];
    expect(() => sent({ system: "Be brief.", messages })).toThrow(UnsupportedRequestError);
    expect(sent({ system: null, messages })["system"]).toEqual([
      { type: "text", text: "Be kind." },
    ]);
  });
});
