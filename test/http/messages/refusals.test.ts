import { describe, expect, test } from "bun:test";
import { messagesErrorBody } from "../../../src/contract/messages/messagesAnswer.ts";
import { invalidRequest } from "../../../src/contract/errors.ts";
import { noPrice, unsold, unsoldTier } from "../../support/gateway/noPrice.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage, sendMessage } from "../../support/gateway/messagesCalls.ts";
import { message, usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { json, refusal } from "../../support/provider/scriptedProvider.ts";

const extras = { rub_cache_write_1h_per_1m: 60_000, rub_web_search_per_1k: 900_000 };

const at = openBefore(["claude", "local"], ({ claude, local }) => ({
  providers: { claude: { base_url: claude, kind: "anthropic" }, local },
  models: [
    { id: "small", routes: [{ provider: "claude", responses: false }] },
    { id: "priced", routes: [{ provider: "claude", responses: false }], settings: extras },
    { id: "translated", routes: [{ provider: "local", responses: false }] },
    {
      id: "saved",
      routes: [
        { provider: "claude", responses: false },
        { provider: "local", responses: false, priority: 2 },
      ],
    },
  ],
  sections: { api: { refused_tools: ["memory_20250818"], shared_objects: ["file_shared"] } },
}));

const search = { type: "web_search_20250305", name: "web_search", max_uses: 5 };
const long = [{ type: "text", text: "a", cache_control: { type: "ephemeral", ttl: "1h" } }];
const fileOf = (id: string) => [
  { role: "user", content: [{ type: "document", source: { type: "file", file_id: id } }] },
];
const translated = { model: "translated" };

/** A change of the least request, and the message of its 400. */
const refused: readonly (readonly [change: object, problem: string])[] = [
  [{ model: undefined }, "model is required"],
  [{ messages: undefined }, "messages is required"],
  [{ messages: [] }, "messages must contain at least 1 item"],
  [{ max_tokens: undefined }, "max_tokens is required"],
  [{ max_tokens: 1.5 }, "max_tokens must be an integer"],
  [{ max_tokens: -1 }, "max_tokens must be at least 0"],
  [
    { messages: [{ role: "tool", content: "x" }] },
    "messages[0].role must be one of: user, assistant, system",
  ],
  [{ Model: "x" }, "Model is not supported"],
  [
    { messages: [{ role: "user", content: "x", Content: "y" }] },
    "messages[0].Content is not supported",
  ],
  [{ container: "c" }, "container is not supported"],
  [{ diagnostics: { previous_message_id: "msg_1" } }, "diagnostics is not supported"],
  [{ n: 2 }, "n is not supported"],
  [{ max_output_tokens: 9 }, "max_output_tokens is not supported"],
  [{ fallbacks: [{ model: "x" }] }, "fallbacks is not supported"],
  [{ speed: "fast" }, unsoldTier("speed", "fast")],
  [{ service_tier: "priority" }, unsoldTier("service_tier", "priority")],
  [{ inference_geo: "us" }, `inference_geo is not supported: ${noPrice}`],
  [{ n_predict: 5 }, "n_predict is not supported, use max_tokens"],
  [
    { tools: [search] },
    "tools: Input tag 'web_search_20250305' is not supported: the model has no rub_web_search_per_1k, and web_search is not in [api] allowed_tools",
  ],
  [{ system: long }, "cache_control beyond 5m is not supported"],
  [
    { tools: [{ type: "code_execution_20250825", name: "x" }] },
    `tools: Input tag 'code_execution_20250825' is not supported: ${unsold("code_execution", "rub_code_session_per_1k")}`,
  ],
  [
    { tools: [{ type: "advisor_20260301", name: "advisor", model: "claude-opus-5" }] },
    `tools: Input tag 'advisor_20260301' is not supported: ${noPrice}`,
  ],
  [
    { ...translated, tools: [{ type: "advisor_20260301", name: "advisor", model: "small" }] },
    `tools: Input tag 'advisor_20260301' is not supported: ${noPrice}`,
  ],
  [
    { tools: [{ type: "no 'type'", name: "x" }] },
    `tools of an unknown type are not supported: ${noPrice}`,
  ],
  [
    { ...translated, messages: [{ role: "user", content: [{ type: "container_upload" }] }] },
    "messages[0].content[0]: Input tag 'container_upload' is not supported by this model's provider",
  ],
  [{ tools: [{ ...search, max_uses: 0 }] }, "tools[0].max_uses must be an integer from 1 to 1000"],
  [
    { tools: [search, { ...search, name: "more", max_uses: 1000 }] },
    "tools must allow at most 1000 web searches together",
  ],
  [
    { tools: [{ type: "memory_20250818", name: "memory" }] },
    "tools: Input tag 'memory_20250818' is not supported",
  ],
  [
    { ...translated, tools: [{ type: "bash_20250124", name: "bash" }] },
    "tools[0]: Input tag 'bash_20250124' is not supported by this model's provider",
  ],
  [
    { ...translated, tools: [search] },
    "tools[0]: Input tag 'web_search_20250305' is not supported by this model's provider",
  ],
  [
    { ...translated, stop_sequences: Array.from({ length: 33 }, String) },
    "stop_sequences must contain at most 32 items",
  ],
  [{ ...translated, max_tokens: 0 }, "max_tokens of 0 is not supported by this model's provider"],
  [
    { ...translated, mcp_servers: [{ type: "url", url: "https://example.com" }] },
    "mcp_servers is not supported by this model's provider",
  ],
];

test.each(refused)("%j is a 400 in Anthropic's form: %s", async (change, problem) => {
  const reply = await sendMessage(at.gateway, await at.gateway.key(), change);
  expect([reply.status, reply.body]).toEqual([
    400,
    messagesErrorBody(invalidRequest(problem), reply.id),
  ]);
  expect(at.providers.claude.requests.length + at.providers.local.requests.length).toBe(0);
});

test.each([{}, translated])(
  "a thread is a 400 with which clients go on without one: %j",
  async (over) => {
    const thread = { type: "create" };
    const reply = await sendMessage(at.gateway, await at.gateway.key(), { ...over, thread });
    const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
    expect([reply.status, reply.body]).toEqual([
      400,
      {
        type: "error",
        error: { type: "invalid_request_error", message: "thread is not supported", details },
        request_id: reply.id,
      },
    ]);
  },
);

test("what only the failed native route may accept is no fault of the client", async () => {
  at.providers.claude.answer = refusal(500);
  const key = await at.gateway.key();
  const reply = await sendMessage(at.gateway, key, { model: "saved", stop_sequences: [""] });
  expect(reply.status).toBe(502);
  expect(at.providers.local.requests).toEqual([]);
});

const user = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] });
const assistant = (...content: readonly object[]) => ({
  messages: [
    { role: "user", content: "hi" },
    { role: "assistant", content },
  ],
});
const tools = (...list: readonly object[]) => ({ tools: list });
const json_schema = { type: "json_schema" };

/** What a translation reads is checked. A native route gets the same request as it is. */
const malformed: readonly (readonly [change: object, problem: string])[] = [
  [{ stop_sequences: "END" }, "stop_sequences must be an array of strings"],
  [{ stop_sequences: [5] }, "stop_sequences[0] must be a string"],
  [{ stop_sequences: ["END", ""] }, "stop_sequences[1] must not be empty"],
  [{ temperature: "hot" }, "temperature must be a number"],
  [{ top_p: [1] }, "top_p must be a number"],
  [{ thinking: 5 }, "thinking must be an object"],
  [{ thinking: {} }, "thinking.type is required"],
  [{ thinking: { type: "on" } }, "thinking.type must be one of: enabled, adaptive, disabled"],
  [{ thinking: { type: "enabled" } }, "thinking.budget_tokens is required"],
  [
    { thinking: { type: "enabled", budget_tokens: "many" } },
    "thinking.budget_tokens must be an integer",
  ],
  [{ output_config: [] }, "output_config must be an object"],
  [
    { output_config: { effort: "most" } },
    "output_config.effort must be one of: low, medium, high, xhigh, max",
  ],
  [{ output_config: { format: json_schema } }, "output_config.format.schema is required"],
  [
    { output_config: { format: { ...json_schema, schema: "x" } } },
    "output_config.format.schema must be an object",
  ],
  [
    { output_config: { format: { type: "grammar" } } },
    "output_config.format of the type grammar is not supported by this model's provider",
  ],
  [{ output_format: json_schema }, "output_format.schema is required"],
  [{ tools: {} }, "tools must be an array of tools"],
  [{ tools: ["f"] }, "tools[0] must be an object"],
  [tools({ input_schema: {} }), "tools[0].name is required"],
  [tools({ name: "" }), "tools[0].name must not be empty"],
  [tools({ type: "custom", name: 5 }), "tools[0].name must be a string"],
  [tools({ name: "f", description: 5 }), "tools[0].description must be a string"],
  [tools({ name: "f", input_schema: [] }), "tools[0].input_schema must be an object"],
  [tools({ name: "f", strict: "yes" }), "tools[0].strict must be a boolean"],
  [{ tool_choice: "any" }, "tool_choice must be an object"],
  [{ tool_choice: {} }, "tool_choice.type is required"],
  [{ tool_choice: { type: "tool" } }, "tool_choice.name is required"],
  [{ mcp_servers: "x" }, "mcp_servers must be an array"],
  [{ system: [{ type: "text" }] }, "system[0].text is required"],
  [user({ type: "text", text: 5 }), "messages[0].content[0].text must be a string"],
  [user({ type: "image" }), "messages[0].content[0].source is required"],
  [
    user({ type: "image", source: { type: "base64", data: "AA==" } }),
    "messages[0].content[0].source.media_type is required",
  ],
  [
    user({ type: "image", source: { type: "url" } }),
    "messages[0].content[0].source.url is required",
  ],
  [
    user({ type: "image", source: { type: "disk" } }),
    "messages[0].content[0].source: Input tag 'disk' is not supported by this model's provider",
  ],
  [user({ type: "document", source: 1 }), "messages[0].content[0].source must be an object"],
  [
    user({ type: "document", source: { type: "text" } }),
    "messages[0].content[0].source.data is required",
  ],
  [
    user({ type: "document", source: { type: "content", content: [{ type: "text" }] } }),
    "messages[0].content[0].source.content[0].text is required",
  ],
  [
    user({ type: "search_result", title: "a", source: "b" }),
    "messages[0].content[0].content is required",
  ],
  [user({ type: "tool_reference" }), "messages[0].content[0].tool_name is required"],
  [user({ type: "tool_result" }), "messages[0].content[0].tool_use_id is required"],
  [
    user({ type: "tool_result", tool_use_id: "a", content: {} }),
    "messages[0].content[0].content must be a string or an array of blocks",
  ],
  [
    user({ type: "tool_result", tool_use_id: "a", content: [{ type: "text" }] }),
    "messages[0].content[0].content[0].text is required",
  ],
  [
    user({ type: "tool_result", tool_use_id: "a", is_error: "yes" }),
    "messages[0].content[0].is_error must be a boolean",
  ],
  [assistant({ type: "tool_use", name: "f" }), "messages[1].content[0].id is required"],
  [assistant({ type: "tool_use", id: "a" }), "messages[1].content[0].name is required"],
  [
    assistant({ type: "tool_use", id: "a", name: "f", input: "x" }),
    "messages[1].content[0].input must be an object",
  ],
];

test.each(malformed)("%j is a 400 over a translated route: %s", async (change, problem) => {
  const key = await at.gateway.key();
  const before = await at.gateway.balance(key);
  const reply = await sendMessage(at.gateway, key, { ...translated, ...change });
  expect([reply.status, reply.body]).toEqual([
    400,
    messagesErrorBody(invalidRequest(problem), reply.id),
  ]);
  expect(await at.gateway.balance(key)).toBe(before);
  expect(at.providers.local.requests).toEqual([]);
});

test("numbers with many digits and members that are null are well-formed", async () => {
  at.providers.local.answer = answered();
  const body = JSON.stringify({
    ...askMessage(translated),
    ...tools({ name: "f", input_schema: { type: "object", properties: {} }, description: null }),
    ...Object.fromEntries(
      ["system", "stop_sequences", "tool_choice", "output_config", "top_p"].map((name) => [
        name,
        null,
      ]),
    ),
    thinking: { type: "enabled", budget_tokens: "BUDGET" },
    temperature: "TEMPERATURE",
  });
  const text = body.replace('"BUDGET"', "2.048e3").replace('"TEMPERATURE"', "0.70");
  expect((await sendMessage(at.gateway, await at.gateway.key(), text)).status).toBe(200);
});

/** Parts whose tokens are not bounded by the bytes of the request. */
const largeParts = [
  { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
  { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
  { type: "document", source: { type: "url", url: "https://example.com/a.pdf", content: "" } },
  { type: "video", source: { type: "url", url: "https://example.com/a.mp4" } },
];

test.each(largeParts)("the whole context is held for %j", async (part) => {
  at.providers.claude.answer = usualMessage;
  const key = await at.gateway.key();
  const content = [{ type: "tool_result", tool_use_id: "x", content: [part] }];
  await sendMessage(at.gateway, key, { messages: [{ role: "user", content }] });
  const [record] = await at.gateway.records(key, 1);
  expect(record?.hold).toBe(200_000n * 30_000n + 100n * 200_000n);
});

test.each(["anthropic-beta", "anthropic-version"])("%s has at most 1 KiB", async (name) => {
  at.providers.claude.answer = usualMessage;
  const send = async (length: number) =>
    sendMessage(at.gateway, await at.gateway.key(), {}, { [name]: "b".repeat(length) });
  expect((await send(1024)).status).toBe(200);
  const reply = await send(1025);
  expect([reply.status, reply.body]).toMatchObject([
    400,
    { error: { message: `${name} is too long: at most 1024 characters` } },
  ]);
  expect(at.providers.claude.requests).toHaveLength(1);
});

test.each(["context-1m-2025-08-07", "Context-1M-2025-08-07"])(
  "a refused beta is a 400: %s",
  async (beta) => {
    const betas = `interleaved-thinking-2025-05-14, ${beta}`;
    const reply = await sendMessage(
      at.gateway,
      await at.gateway.key(),
      {},
      { "anthropic-beta": betas },
    );
    expect(reply.body).toMatchObject({
      error: { message: `anthropic-beta ${beta} is not supported` },
    });
  },
);

test("a file must be shared", async () => {
  at.providers.claude.answer = usualMessage;
  const key = await at.gateway.key();
  const foreign = await sendMessage(at.gateway, key, { messages: fileOf("file_1") });
  expect([foreign.status, foreign.body]).toMatchObject([
    404,
    { error: { type: "not_found_error" } },
  ]);
  const shared = await sendMessage(at.gateway, key, { messages: fileOf("file_shared") });
  expect(shared.status).toBe(200);
});

describe("a model with prices for them", () => {
  const usage = {
    input_tokens: 100,
    cache_read_input_tokens: 10,
    cache_creation_input_tokens: 50,
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
    server_tool_use: { web_search_requests: 3 },
    output_tokens: 7,
  };

  test("charges one-hour cache writes and searches, and holds for them", async () => {
    at.providers.claude.answer = json(message({ usage }));
    const key = await at.gateway.key();
    const plain = await sendMessage(at.gateway, key, { model: "priced" });
    expect(plain.status).toBe(200);
    const extra = { model: "priced", system: long, tools: [search] };
    expect((await sendMessage(at.gateway, key, extra)).status).toBe(200);
    const [withExtras, without] = await at.gateway.records(key, 2);
    const tokens = 100n * 25_000n + 10n * 2500n + 20n * 30_000n + 30n * 60_000n + 7n * 200_000n;
    const charge = tokens + 3n * 900_000n * 1000n;
    expect(withExtras).toMatchObject({ charge, cacheWrite1hTokens: 30, webSearches: 3 });
    // Images, files and searches may make the prompt as long as the model's context.
    const prompt = 200_000n * 60_000n;
    expect(withExtras?.hold).toBe(prompt + 5n * 900_000n * 1000n + 100n * 200_000n);
    expect(without?.hold).toBeLessThan(prompt);
  });
});
