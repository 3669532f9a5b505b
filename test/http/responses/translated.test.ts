import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import {
  answered,
  choice,
  completion,
  helloEvent,
  roleEvent,
  streamed,
  usual,
} from "../../support/provider/chatAnswers.ts";
import {
  message,
  messageEvent,
  messageUsage,
  usualMessage,
} from "../../support/provider/anthropicAnswers.ts";
import {
  billed,
  saying,
  usageMetadata,
  usualGemini,
} from "../../support/provider/geminiAnswers.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import {
  json,
  refusal,
  stream,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import type { JsonFields } from "../../../src/lib/json.ts";
import { eventsIn } from "../../gateway/translation/responses/reading.ts";

const at = openBefore(
  ["local", "claude", "google", "native"],
  ({ local, claude, google, native }) => ({
    providers: {
      local,
      claude: { kind: "anthropic", base_url: claude, api_key: upstreamKey },
      google: { kind: "gemini", base_url: google, api_key: upstreamKey },
      native,
    },
    models: [
      { id: "small", routes: [{ provider: "local", responses: false }] },
      {
        id: "claude",
        routes: [{ provider: "claude", model: "claude-sonnet-4-5", responses: false }],
      },
      { id: "gemini", routes: [{ provider: "google", model: "gemini-3-pro", responses: false }] },
      { id: "native", routes: [{ provider: "native" }] },
      { id: "mixed", routes: [{ provider: "native" }, { provider: "local", responses: false }] },
      { id: "reversed", routes: [{ provider: "local", responses: false }, { provider: "native" }] },
    ],
    sections: { api: { unknown_fields: "reject", allowed_tools: ["file_search"] } },
  }),
);
const { local, claude, google, native } = at.providers;

const usualCost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const geminiCost = costOf({ ...billed, cacheWrite: 0 });

/** Asks for a response that is not kept. */
async function ask(model: string, changes: object = {}, key?: TestKey) {
  return respond(at.gateway, key ?? (await at.gateway.key()), { model, store: false, ...changes });
}

/** The response object of an answer in JSON, or of the last event of a stream. */
function responseIn(reply: { text: string; headers: Headers }): JsonFields {
  const isStream = reply.headers.get("content-type")?.startsWith("text/event-stream") === true;
  const value: unknown = isStream
    ? eventsIn(reply.text).at(-1)?.["response"]
    : JSON.parse(reply.text);
  return value as JsonFields;
}

const text = (value: string) => ({
  type: "output_text",
  text: value,
  annotations: [],
  logprobs: [],
});

describe.each<[string, ProviderAnswer, bigint, number, number]>([
  ["small", usual, usualCost, 0, 27],
  ["claude", usualMessage, usualCost, 0, 27],
  ["gemini", usualGemini, geminiCost, 30, 150],
])("a model with only chat routes: %s", (model, answer, cost, reasoningTokens, total) => {
  test.each([false, true])("answers and charges (stream: %p)", async (isStream) => {
    for (const provider of [local, claude, google]) provider.answer = answer;
    const key = await at.gateway.key();
    const before = await at.gateway.balance(key);
    const reply = await ask(model, { stream: isStream, prompt_cache_key: "k" }, key);
    expect(reply.status).toBe(200);
    const response = responseIn(reply);
    expect(response).toMatchObject({
      id: reply.id.replace("req_", "resp_"),
      object: "response",
      status: "completed",
      model,
      store: false,
      usage: { total_tokens: total, output_tokens_details: { reasoning_tokens: reasoningTokens } },
    });
    const output = response["output"] as readonly JsonFields[];
    expect(output.at(-1)).toMatchObject({ type: "message", content: [text("Hello there")] });
    await at.gateway.unreserved(key);
    expect(before - (await at.gateway.balance(key))).toBe(cost);
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ endpoint: "responses", status: "done" });
  });
});

describe("the end of a translated stream", () => {
  test("is an error event if the provider fails", async () => {
    local.answer = stream(roleEvent, helloEvent, 'data: {"error":{"message":"secret"}}\n\n');
    const { text: bytes } = await ask("small", { stream: true });
    const events = eventsIn(bytes);
    expect(events.at(-1)).toEqual({
      type: "error",
      code: "provider_error",
      message: "upstream provider failure",
      param: null,
      sequence_number: events.length - 1,
      error: {
        type: "provider_error",
        code: "provider_error",
        message: "upstream provider failure",
        param: null,
      },
    });
    expect(bytes).not.toContain("secret");
  });

  test("waits for the charge", async () => {
    local.answer = streamed;
    const reply = await openResponse(at.gateway, await at.gateway.key(), { store: false });
    await reply.seen("response.completed");
    expect(eventsIn(reply.text).at(-1)).toMatchObject({ type: "response.completed" });
  });
});

describe("reasoning that the provider signed comes back to it", () => {
  const include = ["reasoning.encrypted_content"];
  const tools = [{ type: "function", name: "look", parameters: { type: "object" } }];
  const result = { type: "function_call_output", output: "4" };

  test("over Anthropic, in its place", async () => {
    const content = [
      { type: "thinking", thinking: "Let me look.", signature: "c2lnbmVk" },
      { type: "text", text: "I look." },
      { type: "tool_use", id: "toolu_1", name: "look", input: {} },
    ];
    claude.answer = json(message({ content, stop_reason: "tool_use" }));
    const first = await ask("claude", { include, tools, reasoning: { effort: "low" } });
    const output = responseIn(first)["output"] as readonly JsonFields[];
    expect(output.map(({ type }) => type)).toEqual([
      "reasoning",
      "message",
      "function_call",
      "reasoning",
    ]);
    const input = [
      { role: "user", content: "hello" },
      ...output,
      { ...result, call_id: "toolu_1" },
    ];
    claude.answer = usualMessage;
    expect((await ask("claude", { include, tools, input })).status).toBe(200);
    expect(claude.requests.at(-1)?.json["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "hello" }] },
      { role: "assistant", content },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "4" }] },
        ],
      },
    ]);
  });

  test("over Anthropic, from a stream", async () => {
    const blocks = [
      { type: "thinking_delta", thinking: "Hm." },
      { type: "signature_delta", signature: "c2lnbmVk" },
    ].map((delta) => messageEvent("content_block_delta", { index: 0, delta }));
    claude.answer = stream(
      messageEvent("message_start", { message: message({ content: [], usage: messageUsage }) }),
      messageEvent("content_block_start", {
        index: 0,
        content_block: { type: "thinking", thinking: "" },
      }),
      ...blocks,
      messageEvent("content_block_stop", { index: 0 }),
      messageEvent("content_block_start", {
        index: 1,
        content_block: { type: "text", text: "Four." },
      }),
      messageEvent("content_block_stop", { index: 1 }),
      messageEvent("message_delta", {
        delta: { stop_reason: "end_turn" },
        usage: { output_tokens: 7 },
      }),
      messageEvent("message_stop"),
    );
    const first = await ask("claude", { include, stream: true });
    const output = responseIn(first)["output"] as readonly JsonFields[];
    const input = [{ role: "user", content: "a" }, ...output, { role: "user", content: "b" }];
    claude.answer = usualMessage;
    await ask("claude", { input });
    const messages = claude.requests.at(-1)?.json["messages"] as readonly JsonFields[] | undefined;
    expect(messages?.[1]).toEqual({
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "c2lnbmVk" },
        { type: "text", text: "Four." },
      ],
    });
  });

  test("over Google, with its call", async () => {
    const parts = [
      { functionCall: { id: "c1", name: "look", args: {} }, thoughtSignature: "c2ln" },
    ];
    google.answer = json(saying(parts, "STOP", { usageMetadata }));
    const first = await ask("gemini", { include, tools });
    const output = responseIn(first)["output"] as readonly JsonFields[];
    const input = [{ role: "user", content: "hello" }, ...output, { ...result, call_id: "c1" }];
    google.answer = usualGemini;
    expect((await ask("gemini", { include, tools, input })).status).toBe(200);
    const contents = google.requests.at(-1)?.json["contents"] as readonly JsonFields[] | undefined;
    expect(contents?.[1]).toEqual({ role: "model", parts });
  });

  test("over an OpenAI-compatible server, details of a stream joined", async () => {
    const detail = (more: object) => ({
      reasoning_details: [{ type: "reasoning.text", index: 0, format: "x", ...more }],
    });
    const event = (delta: object, finish: string | null = null): string =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    local.answer = stream(
      event({ reasoning: "Let ", ...detail({ text: "Let " }) }),
      event({ reasoning: "me.", ...detail({ text: "me." }) }),
      event(detail({ signature: "c2ln" })),
      event({ content: "Yes." }),
      event({}, "stop"),
      "data: [DONE]\n\n",
    );
    const first = await ask("small", { include, stream: true });
    const output = responseIn(first)["output"] as readonly JsonFields[];
    local.answer = usual;
    await ask("small", { input: [{ role: "user", content: "a" }, ...output] });
    expect(local.requests.at(-1)?.json["messages"]).toEqual([
      { role: "user", content: "a" },
      {
        role: "assistant",
        content: "Yes.",
        reasoning_content: "Let me.",
        reasoning_details: [
          { type: "reasoning.text", index: 0, format: "x", text: "Let me.", signature: "c2ln" },
        ],
      },
    ]);
  });
});

test.each([false, true])(
  "a request that says nothing of store is answered, and the answer says that it is not kept (stream: %p)",
  async (isStream) => {
    local.answer = usual;
    const reply = await ask("small", { store: undefined, stream: isStream });
    expect(responseIn(reply)).toMatchObject({ status: "completed", store: false });
  },
);

describe("a model with both kinds of routes", () => {
  /** The number of requests that each provider received. */
  const got = () => [native.requests.length, local.requests.length];

  test.each([false, true])(
    "uses them by priority, and fails over (stream: %p)",
    async (isStream) => {
      native.answer = refusal(500);
      local.answer = usual;
      const reply = await ask("mixed", { stream: isStream });
      expect(responseIn(reply)).toMatchObject({ id: reply.id.replace("req_", "resp_") });
      expect(got()).toEqual([1, 1]);

      at.gateway.forgetFailures();
      local.answer = refusal(500);
      native.answer = responds("resp_native");
      expect((await ask("reversed", { stream: isStream })).text).toContain("resp_native");
      expect(got()).toEqual([2, 2]);
    },
  );

  test("uses only native ones for a response that is kept", async () => {
    native.answer = responds();
    expect((await respond(at.gateway, await at.gateway.key(), { model: "reversed" })).status).toBe(
      200,
    );
    native.answer = refusal(500);
    expect((await ask("reversed", { store: true })).status).toBe(502);
    expect(got()).toEqual([2, 0]);
  });

  test("uses only native ones for a tool of the provider", async () => {
    native.answer = responds();
    expect(
      (await ask("reversed", { tools: [{ type: "file_search", vector_store_ids: [] }] })).status,
    ).toBe(200);
    expect(got()).toEqual([1, 0]);
  });

  test.each([[["reasoning.encrypted_content"]], [[]]])(
    "sends a native one no reasoning of a translated answer (include: %j)",
    async (include) => {
      local.answer = answered({ choices: [choice({ reasoning_content: "hm" })] });
      const first = await ask("reversed", { include });
      const [reasoning, ...output] = responseIn(first)["output"] as readonly JsonFields[];
      expect(reasoning).toMatchObject({ type: "reasoning" });
      native.answer = responds();
      const reference = { type: "item_reference", id: reasoning?.["id"] };
      const user = { role: "user", content: "b" };
      const input = [reference, reasoning, ...output, user];
      for (const model of ["mixed", "native"])
        expect(await ask(model, { input, store: undefined })).toMatchObject({ status: 200 });
      expect(native.requests.map(({ json }) => json["input"])).toEqual(
        Array.from({ length: 2 }, () => [...output, user]),
      );
    },
  );

  test("uses only translated ones for an item that no native route knows", async () => {
    local.answer = usual;
    const input = [
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "hm" }] },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "b" },
    ];
    expect((await ask("mixed", { input })).status).toBe(200);
    expect(got()).toEqual([0, 1]);
  });

  test("refuses a response of another account", async () => {
    const reply = await ask("mixed", { previous_response_id: "resp_1" });
    expect([reply.status, got()]).toEqual([404, [0, 0]]);
  });
});

/** Reasoning as a translated answer returns it, with a cache write for an hour inside. */
const longBlock = {
  type: "thinking",
  thinking: "Hm.",
  signature: "x",
  cache_control: { type: "ephemeral", ttl: "1h" },
};
const returned = `tollgate-1:${Buffer.from(JSON.stringify({ thinking_blocks: [longBlock] })).toString("base64url")}`;

describe("refused before anything is held or sent", () => {
  const rows: readonly (readonly [string, string, object, number, string])[] = [
    [
      "a response to continue",
      "small",
      { previous_response_id: "resp_1" },
      400,
      "previous_response_id is not supported: this model does not keep responses, send the whole conversation as input",
    ],
    [
      "a file of the provider",
      "small",
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "file_1" }] }] },
      404,
      "resource not found",
    ],
    [
      "a cache write for an hour inside returned reasoning",
      "claude",
      {
        input: [
          { type: "reasoning", summary: [], encrypted_content: returned },
          { role: "assistant", content: "Hello" },
          { role: "user", content: "again" },
        ],
      },
      400,
      "cache_control beyond 5m is not supported",
    ],
    [
      "a setting out of its range",
      "small",
      { temperature: 3 },
      400,
      "temperature must be between 0 and 2",
    ],
    [
      "what the provider's interface cannot express",
      "claude",
      {
        tools: [{ type: "function", name: "f" }],
        tool_choice: {
          type: "allowed_tools",
          mode: "auto",
          tools: [{ type: "function", name: "f" }],
        },
      },
      400,
      "tool_choice is not supported by this model's provider",
    ],
  ];
  test.each(rows)("%s", async (_, model, changes, status, problem) => {
    const key = await at.gateway.key();
    const before = await at.gateway.balance(key);
    const reply = await ask(model, changes, key);
    expect([reply.status, reply.body]).toMatchObject([status, { error: { message: problem } }]);
    expect(await at.gateway.balance(key)).toBe(before);
    expect(local.requests.length + claude.requests.length).toBe(0);
  });
});

test("the completion of a provider is not shown", async () => {
  local.answer = json(completion({ system_fingerprint: "fp_1" }));
  const { text: bytes } = await ask("small");
  for (const word of ["fp_1", "model-of-the-provider", "chatcmpl"])
    expect(bytes).not.toContain(word);
});
