import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { messageEvents, sendMessage } from "../../support/gateway/messagesCalls.ts";
import { usualGemini } from "../../support/provider/geminiAnswers.ts";
import { json, refusal, stream } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["local", "claude", "google"], ({ local, claude, google }) => ({
  providers: {
    local: { base_url: local },
    google: { base_url: google, kind: "gemini" },
    claude: { base_url: claude, kind: "anthropic" },
  },
  models: [
    { id: "small", routes: [{ provider: "local", responses: false }] },
    { id: "counting", routes: [{ provider: "local", model: "counting", responses: false }] },
    { id: "flash", routes: [{ provider: "google", responses: false }] },
    { id: "gpt-5-mini", routes: [{ provider: "local", responses: false }] },
    {
      id: "mixed",
      routes: [
        { provider: "claude", responses: false },
        { provider: "local", responses: false },
      ],
    },
  ],
}));

const usage = {
  prompt_tokens: 20,
  completion_tokens: 7,
  prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
};
const shownUsage = {
  input_tokens: 12,
  cache_creation_input_tokens: 3,
  cache_read_input_tokens: 5,
  output_tokens: 7,
};
const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

function completion(message: object, finishReason = "stop"): object {
  const choices = [
    { index: 0, message: { role: "assistant", ...message }, finish_reason: finishReason },
  ];
  return { id: "x", object: "chat.completion", created: 1, model: "m", choices, usage };
}

function chunk(delta: object, finishReason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return `data: ${JSON.stringify({ id: "x", created: 1, model: "m", choices })}\n\n`;
}
const usageChunk = `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`;

const calls = [
  {
    id: "call_1",
    type: "function",
    function: { name: "weather", arguments: '{"id":12345678901234567890}' },
  },
  { id: "call_2", type: "function", function: { name: "clock", arguments: "" } },
];

describe("a message from a provider of kind openai", () => {
  test("has the text, the reasoning and the calls of the chat in JSON", async () => {
    const said = { content: "Hello", reasoning_content: "Hm.", tool_calls: calls };
    at.providers.local.answer = json(completion(said, "tool_calls"));
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key);
    expect(reply.text).toContain('"input":{"id":12345678901234567890}');
    expect(reply.body).toMatchObject({
      id: reply.id.replace("req_", "msg_"),
      type: "message",
      role: "assistant",
      model: "small",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "tollgate-translated" },
        { type: "text", text: "Hello" },
        { type: "tool_use", id: "call_1", name: "weather" },
        { type: "tool_use", id: "call_2", name: "clock", input: {} },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: shownUsage,
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { endpoint: "messages", status: "done", charge: exact, provider: "local" },
    ]);
  });

  test("has the same in a stream, block by block", async () => {
    at.providers.local.answer = stream(
      chunk({ role: "assistant", content: "" }),
      chunk({ reasoning_content: "Hm." }),
      chunk({ content: "Hel" }),
      chunk({ content: "lo" }),
      chunk({
        tool_calls: [{ index: 0, ...calls[0], function: { name: "weather", arguments: "" } }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '"Paris"}' } }] }),
      chunk({ tool_calls: [{ index: 1, ...calls[1] }] }),
      chunk({}, "tool_calls"),
      usageChunk,
    );
    const key = await at.gateway.key();
    const events = messageEvents((await sendMessage(at.gateway, key, { stream: true })).text);
    expect(events.map(({ name, data }) => [name, data["index"]])).toEqual([
      ["message_start", undefined],
      ["ping", undefined],
      ["content_block_start", 0],
      ["content_block_delta", 0],
      ["content_block_delta", 0],
      ["content_block_stop", 0],
      ["content_block_start", 1],
      ["content_block_delta", 1],
      ["content_block_delta", 1],
      ["content_block_stop", 1],
      ["content_block_start", 2],
      ["content_block_delta", 2],
      ["content_block_delta", 2],
      ["content_block_stop", 2],
      ["content_block_start", 3],
      ["content_block_stop", 3],
      ["message_delta", undefined],
      ["message_stop", undefined],
    ]);
    expect(events.at(-2)?.data).toMatchObject({
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: shownUsage,
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: exact }]);
  });

  test.each<[string, object | undefined, object]>([
    ["that come with the content", usage, { ...shownUsage, output_tokens: 0 }],
    ["but not zeros", { ...usage, prompt_tokens: 0 }, { input_tokens: 2, output_tokens: 0 }],
    ["or the estimate if none come", undefined, { input_tokens: 2, output_tokens: 0 }],
  ])("begins with the tokens of the prompt %s", async (_, reported, shown) => {
    const hello = { choices: [{ index: 0, delta: { content: "Hello" }, finish_reason: null }] };
    at.providers.local.answer = stream(
      chunk({ role: "assistant", content: "" }),
      `data: ${JSON.stringify({ ...hello, usage: reported })}\n\n`,
      chunk({}, "stop"),
      usageChunk,
    );
    const reply = await sendMessage(at.gateway, await at.gateway.key(), { stream: true });
    const [start] = messageEvents(reply.text);
    expect(start?.data["message"]).toHaveProperty("usage", shown);
  });

  test("begins with an estimate that follows what the route has counted before", async () => {
    const counted = { choices: [], usage: { prompt_tokens: 300, completion_tokens: 7 } };
    at.providers.local.answer = stream(
      chunk({ content: "Hello" }),
      chunk({}, "stop"),
      `data: ${JSON.stringify(counted)}\n\ndata: [DONE]\n\n`,
    );
    const key = await at.gateway.key();
    // An estimate of 200 tokens.
    const messages = [{ role: "user", content: "x".repeat(800) }];
    const asked = { model: "counting", stream: true, messages };
    const shown: unknown[] = [];
    for (let times = 0; times < 2; times++) {
      const [start] = messageEvents((await sendMessage(at.gateway, key, asked)).text);
      shown.push(start?.data["message"]);
    }
    expect(shown).toMatchObject([
      { usage: { input_tokens: 200 } },
      { usage: { input_tokens: 300 } },
    ]);
  });

  test("begins with the tokens that Gemini counts in each event", async () => {
    at.providers.google.answer = usualGemini;
    const asked = { model: "flash", stream: true };
    const reply = await sendMessage(at.gateway, await at.gateway.key(), asked);
    const [start] = messageEvents(reply.text);
    expect(start?.data["message"]).toMatchObject({
      usage: { input_tokens: 100, cache_read_input_tokens: 0, output_tokens: 0 },
    });
  });

  test.each([
    ["stop", "end_turn"],
    ["length", "max_tokens"],
    ["content_filter", "refusal"],
  ])("ends with the reason for %s", async (finish, reason) => {
    at.providers.local.answer = json(completion({ content: "Hello" }, finish));
    const reply = await sendMessage(at.gateway, await at.gateway.key());
    expect(reply.body).toMatchObject({ stop_reason: reason });
  });

  test("costs nothing if its last chunk cannot be written as a message", async () => {
    const [first, second] = calls;
    // The name of the third call never comes.
    const rest = { index: 2, id: "call_3", function: { arguments: "{}" } };
    at.providers.local.answer = stream(
      chunk({
        tool_calls: [
          { ...first, index: 0 },
          { ...second, index: 1 },
        ],
      }),
      chunk({ tool_calls: [rest] }, "tool_calls"),
      usageChunk,
    );
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { stream: true });
    expect(messageEvents(reply.text).at(-1)).toMatchObject({ name: "error" });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("follows a provider of kind anthropic that fails", async () => {
    at.providers.claude.answer = refusal(500);
    at.providers.local.answer = json(completion({ content: "Hello" }));
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { model: "mixed" });
    expect(reply.body).toMatchObject({ content: [{ type: "text", text: "Hello" }] });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ provider: "local", charge: exact }]);
  });
});

const looseSchema = { type: "object", properties: { a: { type: "string" } } };
const closedSchema = { ...looseSchema, required: ["a"], additionalProperties: false };

/** What a Messages request has, and what the provider of a chat must receive beside the model. */
const requests: readonly (readonly [name: string, message: object, chat: object])[] = [
  [
    "instructions, also between the messages",
    {
      system: [
        { type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } },
        { type: "text", text: "Be kind." },
      ],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
        },
        { role: "system", content: "Now." },
      ],
    },
    {
      messages: [
        { role: "system", content: "Be brief.\n\nBe kind." },
        { role: "user", content: "a\n\nb\n\n<system>\nNow.\n</system>" },
      ],
    },
  ],
  [
    "images and documents",
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
            { type: "image", source: { type: "base64", media_type: "image/jpg", data: "AAAA" } },
            { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
            {
              type: "document",
              title: "a.pdf",
              source: { type: "base64", media_type: "application/pdf", data: "AAAA" },
            },
            { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } },
          ],
        },
      ],
    },
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
            { type: "image_url", image_url: { url: "data:image/jpeg;base64,AAAA" } },
            { type: "image_url", image_url: { url: "https://example.com/a.png" } },
            {
              type: "file",
              file: { file_data: "data:application/pdf;base64,AAAA", filename: "a.pdf" },
            },
            { type: "text", text: "plain" },
          ],
        },
      ],
    },
  ],
  [
    "tools, calls and results",
    {
      messages: [
        { role: "user", content: "hi" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "of Anthropic", signature: "EqQB" },
            { type: "text", text: "I look." },
            { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Paris" } },
            { type: "tool_use", id: "toolu_2", name: "clock", input: {} },
          ],
        },
        {
          role: "user",
          content: [
            { type: "text", text: "go on" },
            { type: "tool_result", tool_use_id: "toolu_1", content: "12 degrees" },
            {
              type: "tool_result",
              tool_use_id: "toolu_2",
              is_error: true,
              content: [{ type: "text", text: "broken" }],
            },
          ],
        },
      ],
      tools: [
        { name: "weather", description: "Looks out", input_schema: { type: "object" } },
        { type: "custom", name: "clock", input_schema: { type: "object" }, defer_loading: true },
      ],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    },
    {
      messages: [
        { role: "user", content: "hi" },
        {
          role: "assistant",
          content: "I look.",
          tool_calls: [
            {
              id: "toolu_1",
              type: "function",
              function: { name: "weather", arguments: '{"city":"Paris"}' },
            },
            { id: "toolu_2", type: "function", function: { name: "clock", arguments: "{}" } },
          ],
        },
        { role: "tool", tool_call_id: "toolu_1", content: "12 degrees" },
        {
          role: "tool",
          tool_call_id: "toolu_2",
          content: "Error: broken\n\n<user>\ngo on\n</user>",
        },
      ],
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "Looks out",
            parameters: { type: "object", properties: {} },
          },
        },
        {
          type: "function",
          function: { name: "clock", parameters: { type: "object", properties: {} } },
        },
      ],
      tool_choice: "required",
      parallel_tool_calls: false,
    },
  ],
  [
    "settings",
    {
      temperature: 0.5,
      top_p: 0.9,
      top_k: 4,
      stop_sequences: ["END"],
      metadata: { user_id: "u" },
      service_tier: "auto",
      context_management: { edits: [] },
      output_config: { format: { type: "json_schema", schema: { type: "object" } } },
    },
    {
      messages: [{ role: "user", content: "hello" }],
      temperature: 0.5,
      top_p: 0.9,
      stop: ["END"],
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: { type: "object", properties: {} } },
      },
    },
  ],
  [
    "strict schemas",
    {
      tools: [
        { name: "closed", input_schema: closedSchema, strict: true },
        { name: "free", input_schema: looseSchema, strict: true },
      ],
      output_config: { format: { type: "json_schema", schema: closedSchema } },
    },
    {
      messages: [{ role: "user", content: "hello" }],
      tools: [
        { type: "function", function: { name: "closed", parameters: closedSchema, strict: true } },
        { type: "function", function: { name: "free", parameters: looseSchema } },
      ],
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: closedSchema, strict: true },
      },
    },
  ],
];

test.each([
  ["gpt-5-mini", { thinking: { type: "adaptive" }, output_config: { effort: "max" } }, "high"],
  ["gpt-5-mini", { thinking: { type: "enabled", budget_tokens: 2048 } }, "low"],
  ["gpt-5-mini", { thinking: { type: "disabled" }, output_config: { effort: "low" } }, undefined],
  ["small", { output_config: { effort: "high" } }, undefined],
])("the model %s gets the effort of %j: %s", async (model, settings, effort) => {
  at.providers.local.answer = json(completion({ content: "Hello" }));
  await sendMessage(at.gateway, await at.gateway.key(), { model, ...settings });
  expect(at.providers.local.requests[0]?.json["reasoning_effort"]).toBe(effort);
});

const attribution =
  "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;";

test.each([
  [
    "blocks",
    [
      { type: "text", text: attribution },
      { type: "text", text: "Be kind." },
    ],
    "Be kind.",
  ],
  ["a block with more", [{ type: "text", text: `${attribution}\nBe kind.` }], "Be kind."],
  ["a text", `${attribution}\n\nBe kind.`, "Be kind."],
  ["a text alone", attribution, undefined],
  [
    "a later block",
    [
      { type: "text", text: "Be kind." },
      { type: "text", text: attribution },
    ],
    `Be kind.\n\n${attribution}`,
  ],
])("Claude Code's line about itself is left out of %s", async (_name, system, sent) => {
  at.providers.local.answer = json(completion({ content: "Hello" }));
  await sendMessage(at.gateway, await at.gateway.key(), { system });
  expect(at.providers.local.requests[0]?.json["messages"]).toEqual([
    ...(sent === undefined ? [] : [{ role: "system", content: sent }]),
    { role: "user", content: "hello" },
  ]);
});

test.each([false, true])(
  "the gateway applies a fifth stop sequence, stream %p",
  async (isStream) => {
    at.providers.local.answer = isStream
      ? stream(
          chunk({ content: "one E" }),
          chunk({ content: "ND two" }),
          chunk({}, "stop"),
          usageChunk,
        )
      : json(completion({ content: "one END two" }));
    const key = await at.gateway.key();
    const stop_sequences = ["a", "b", "c", "d", "END"];
    const { text } = await sendMessage(at.gateway, key, { stop_sequences, stream: isStream });
    expect(at.providers.local.requests[0]?.json["stop"]).toEqual(["a", "b", "c", "d"]);
    expect(text).toContain("one ");
    expect(text).not.toContain("two");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: exact }]);
  },
);

/** What OpenAI's strict mode refuses in a schema that is `a` here. */
const notStrict = [
  { type: "string", minLength: 1 },
  { type: "string", format: "uri" },
  { type: "string", default: "x" },
  { enum: ["x"] },
  {},
  { oneOf: [{ type: "string" }] },
  { type: "array" },
  { type: "object" },
  { type: "object", properties: {}, additionalProperties: true },
  { type: "object", properties: { b: { type: "string" } }, additionalProperties: false },
  { $ref: "#/$defs/b", description: "x" },
];

test.each(notStrict)("an answer with a member %j is not asked for strictly", async (member) => {
  at.providers.local.answer = json(completion({ content: "Hello" }));
  const schema = { ...closedSchema, properties: { a: member } };
  const output_config = { format: { type: "json_schema", schema } };
  await sendMessage(at.gateway, await at.gateway.key(), { output_config });
  const { response_format: sent } = at.providers.local.requests[0]?.json ?? {};
  expect(sent).toMatchObject({ type: "json_schema", json_schema: { name: "answer", schema } });
  expect(sent).not.toHaveProperty("json_schema.strict");
});

test.each(requests)("a chat has the %s of a message", async (_, message, chat) => {
  at.providers.local.answer = json(completion({ content: "Hello" }));
  expect((await sendMessage(at.gateway, await at.gateway.key(), message)).status).toBe(200);
  expect(at.providers.local.requests[0]?.json).toEqual({
    model: "small",
    max_tokens: 100,
    ...chat,
  });
});
