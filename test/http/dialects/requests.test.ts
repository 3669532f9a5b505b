import { describe, expect, test } from "bun:test";
import { call } from "../../support/gateway/chatCalls.ts";
import { prices, type Section } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

/** One route for each dialect: the keys of the provider, of the route and of the model. */
const routes = {
  plain: {},
  strict: { provider: { message_order: "strict" } },
  mistral: { route: { model: "mistral-large" } },
  o3: { route: { model: "o3" } },
  "gpt-5": { route: { model: "gpt-5-mini" } },
  "tuned o4": { route: { model: "ft:o4-mini-2025-04-16:acme::1" } },
  "vendor gpt-oss": { route: { model: "openai.gpt-oss-120b-1:0" } },
  "gpt-5.6": { route: { model: "gpt-5.6-terra", responses: true } },
  "gpt-5.4": { route: { model: "gpt-5.4", responses: true } },
  "gpt-5.6 without responses": { route: { model: "gpt-5.6-terra" } },
  grok: { route: { model: "grok-4.3" } },
  deployment: { route: { model: "my-deployment" }, model: { reasoning_effort: true } },
  dropping: { provider: { drop_fields: ["prompt_cache_key", "user"] } },
  "over responses": { route: { model: "gpt-5.2", api: "responses" } },
  gemini: { provider: { kind: "gemini" }, route: { model: "gemini-2.5-flash" } },
  "gemini pro": { provider: { kind: "gemini" }, route: { model: "gemini-2.5-pro" } },
  "claude opus": { provider: { kind: "anthropic" }, route: { model: "claude-opus-5" } },
  "strict mistral": { provider: { message_order: "strict" }, route: { model: "mistral-large" } },
  claude: { provider: { kind: "anthropic" }, route: { model: "claude-sonnet-4-6" } },
} satisfies Readonly<Record<string, { provider?: Section; route?: Section; model?: Section }>>;
type Route = keyof typeof routes;

const at = openBefore(["peer"], ({ peer }) => {
  const all = Object.entries<{ provider?: Section; route?: Section; model?: Section }>(routes);
  const idOf = (name: string): string => name.replaceAll(/[^\w.-]/g, "-");
  return {
    providers: Object.fromEntries(
      all.map(([name, { provider }]) => [idOf(name), { base_url: peer, ...provider }]),
    ),
    models: all.map(([name, { route, model }]) => ({
      id: name.replaceAll(" ", "-"),
      settings: model ?? {},
      routes: [{ provider: idOf(name), responses: false, ...route }],
    })),
    sections: { api: { extra_reasoning_efforts: ["none", "max"] } },
  };
});

/** What the provider of the route is asked. It refuses, because only the question matters here. */
async function asked(route: Route, path: string, body: object) {
  at.providers.peer.answer = refusal(400, "asked");
  const model = route.replaceAll(" ", "-");
  const key = await at.gateway.key();
  const reply = await call(at.gateway, key, { path: `/v1/${path}`, body: { model, ...body } });
  expect(reply.body).toMatchObject({ error: { message: "asked" } });
  const [request] = at.providers.peer.requests;
  const [, endpoint = ""] = /^POST \/v1\/(\S+) /.exec(request?.requestLine ?? "") ?? [];
  return { endpoint, ...request?.json } as Record<string, unknown>;
}

const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
const call1 = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };
const calling = { role: "assistant", content: null, tool_calls: [call1] };
const toolOf = (name: string) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
});
const hello = { messages: [{ role: "user", content: "hello" }] };
const message = { max_tokens: 100, ...hello };

describe("the order of messages", () => {
  const reminded = {
    max_tokens: 100,
    system: "Be brief.",
    messages: [
      { role: "user", content: "a" },
      { role: "system", content: "Now." },
      { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "look", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: "seen" },
          { type: "text", text: "<system-reminder>r</system-reminder>" },
        ],
      },
    ],
  };
  const withPicture = {
    max_tokens: 100,
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "look", input: {} }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "call_1",
            content: [
              { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
            ],
          },
          { type: "text", text: "r" },
        ],
      },
    ],
  };
  test("leaves a picture in a result of a message where the provider takes it there", async () => {
    const { input } = await asked("over responses", "messages", withPicture);
    expect(input).toMatchObject([
      { role: "user" },
      { type: "function_call" },
      {
        type: "function_call_output",
        output: [{ type: "input_image", image_url: "data:image/png;base64,AA==" }],
      },
      { role: "user", content: "r" },
    ]);
  });

  const system = { role: "system", content: "Be brief." };
  const own = {
    messages: [
      system,
      { role: "developer", content: [{ type: "text", text: "Be kind." }] },
      { role: "assistant", content: "x" },
      { role: "user", content: "a" },
      { role: "user", content: [{ type: "text", text: "b" }, picture] },
      { role: "system", content: "Now." },
      calling,
      { role: "tool", tool_call_id: "call_1", content: "seen" },
      { role: "user", content: "c" },
    ],
  };
  const items = {
    store: false,
    instructions: "Be brief.",
    input: [
      { role: "developer", content: "Be kind." },
      { role: "user", content: "a" },
      { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
      {
        type: "function_call_output",
        call_id: "call_1",
        output: [{ type: "input_image", image_url: picture.image_url.url }],
      },
      { role: "developer", content: "Now." },
      { role: "user", content: "b" },
    ],
  };
  const between = { role: "assistant", content: "(continued)" };
  const rows: readonly [string, Route, string, object, object[]][] = [
    [
      "a message's text beside a result",
      "plain",
      "messages",
      reminded,
      [
        system,
        { role: "user", content: "a\n\n<system>\nNow.\n</system>" },
        calling,
        {
          role: "tool",
          tool_call_id: "call_1",
          content: "seen\n\n<user>\n<system-reminder>r</system-reminder>\n</user>",
        },
      ],
    ],
    [
      "a picture in a result of a message",
      "plain",
      "messages",
      withPicture,
      [
        { role: "user", content: "a" },
        calling,
        { role: "tool", tool_call_id: "call_1", content: "(see the next message)" },
        between,
        { role: "user", content: [picture, { type: "text", text: "r" }] },
      ],
    ],
    [
      "items of a response",
      "plain",
      "responses",
      items,
      [
        { role: "system", content: "Be brief.\n\nBe kind." },
        { role: "user", content: "a" },
        calling,
        { role: "tool", tool_call_id: "call_1", content: "(see the next message)" },
        between,
        {
          role: "user",
          content: [
            picture,
            { type: "text", text: "<system>\nNow.\n</system>" },
            { type: "text", text: "b" },
          ],
        },
      ],
    ],
    ["a client's own chat", "plain", "chat/completions", own, own.messages],
    [
      "a client's own chat for a strict provider",
      "strict",
      "chat/completions",
      own,
      [
        { role: "system", content: "Be brief.\n\nBe kind." },
        { role: "user", content: "(no message)" },
        { role: "assistant", content: "x" },
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
            picture,
            { type: "text", text: "<system>\nNow.\n</system>" },
          ],
        },
        calling,
        { role: "tool", tool_call_id: "call_1", content: "seen" },
        between,
        { role: "user", content: "c" },
      ],
    ],
    [
      "instructions alone",
      "plain",
      "responses",
      { store: false, instructions: "Be brief.", input: [] },
      [{ role: "user", content: "Be brief." }],
    ],
  ];
  test.each(rows)("%s", async (_, route, path, body, messages) => {
    expect(await asked(route, path, body)).toMatchObject({ messages });
    const sent = at.providers.peer.requests[0]?.json["messages"];
    expect(sent).toHaveLength(messages.length);
  });
});

describe("the names of tools", () => {
  const long = `mcp__${"x".repeat(80)}`;
  const named = { type: "function", function: { name: long } };
  const body = {
    tools: [toolOf(long), toolOf("server.tool"), toolOf("plain")],
    tool_choice: named,
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", tool_calls: [{ ...call1, function: { name: long, arguments: "{}" } }] },
      { role: "tool", tool_call_id: "call_1", content: "b" },
    ],
  };
  test("are shortened the same way everywhere, and only where the provider refuses them", async () => {
    const native = await asked("plain", "chat/completions", body);
    expect(native).toMatchObject(body);
    at.providers.peer.forget();
    const {
      input,
      tools,
      tool_choice: choice,
    } = await asked("over responses", "chat/completions", body);
    const [short, other, plain] = (tools as { name: string }[]).map(({ name }) => name);
    expect(short).toMatch(/^mcp__x{50}_[0-9a-f]{8}$/);
    expect(other).toMatch(/^server_tool_[0-9a-f]{8}$/);
    expect(plain).toBe("plain");
    expect(choice).toEqual({ type: "function", name: short });
    expect(input).toMatchObject([{ role: "user" }, { name: short }, { call_id: "call_1" }]);
  });

  test("keep 128 characters for Claude", async () => {
    const { tools } = await asked("claude", "chat/completions", body);
    expect(tools).toMatchObject(
      [{ name: long }, { name: /./ }, { name: "plain" }].map(({ name }) => ({
        name: typeof name === "string" ? name : expect.stringMatching(/^server_tool_/),
      })),
    );
  });
});

describe("fields of a request", () => {
  const withTools = { ...hello, tools: [toolOf("look")] };
  const messageWithTools = {
    ...message,
    tools: [{ name: "look", input_schema: { type: "object" } }],
    output_config: { effort: "max" },
  };
  const rows: readonly [string, Route, string, object, object][] = [
    [
      "an effort that the model has",
      "gpt-5",
      "messages",
      { ...message, output_config: { effort: "low" } },
      { reasoning_effort: "low" },
    ],
    [
      "the nearest effort",
      "gpt-5",
      "messages",
      { ...message, output_config: { effort: "max" } },
      { reasoning_effort: "high" },
    ],
    [
      "an effort that a tuned model has",
      "tuned o4",
      "messages",
      { ...message, temperature: 0.5, output_config: { effort: "max" } },
      { reasoning_effort: "high", temperature: undefined },
    ],
    [
      "an effort of a name after a vendor's",
      "vendor gpt-oss",
      "messages",
      { ...message, output_config: { effort: "low" } },
      { reasoning_effort: "low" },
    ],
    [
      "an effort that a grok has",
      "grok",
      "messages",
      { ...message, output_config: { effort: "max" } },
      { reasoning_effort: "high" },
    ],
    [
      "no reasoning, of which the model has none",
      "o3",
      "responses",
      { store: false, input: "a", reasoning: { effort: "none" } },
      { reasoning_effort: "low" },
    ],
    [
      "an effort for an unknown name",
      "plain",
      "messages",
      { ...message, output_config: { effort: "low" } },
      { reasoning_effort: undefined },
    ],
    [
      "an effort for a name that the config knows",
      "deployment",
      "messages",
      { ...message, output_config: { effort: "high" } },
      { reasoning_effort: "high" },
    ],
    [
      "a chat's own effort",
      "plain",
      "chat/completions",
      { ...hello, reasoning_effort: "none" },
      { reasoning_effort: "none" },
    ],
    [
      "sampling that the model refuses",
      "gpt-5",
      "messages",
      { ...message, temperature: 0.5, top_p: 0.5, stop_sequences: ["x"] },
      { temperature: undefined, top_p: undefined, stop: undefined },
    ],
    [
      "a blank message after an answer",
      "claude",
      "chat/completions",
      {
        messages: [
          ...hello.messages,
          { role: "assistant", content: "x" },
          { role: "user", content: " " },
        ],
      },
      {
        messages: [
          {},
          { role: "assistant" },
          { role: "user", content: [{ text: "(no message)" }] },
        ],
      },
    ],
    [
      "the schema of an answer",
      "plain",
      "messages",
      {
        ...message,
        output_config: { format: { type: "json_schema", schema: { type: "object" } } },
      },
      { response_format: { json_schema: { schema: { type: "object", properties: {} } } } },
    ],
    [
      "sampling that Claude refuses",
      "claude opus",
      "responses",
      { store: false, input: "a", temperature: 0.5 },
      { temperature: undefined },
    ],
    [
      "ids of calls in a chat for a strict provider",
      "strict mistral",
      "chat/completions",
      {
        messages: [
          { role: "user", content: "a" },
          calling,
          { role: "tool", tool_call_id: "call_1", content: "b" },
        ],
      },
      {
        messages: [
          { role: "user" },
          { tool_calls: [{ id: expect.stringMatching(/^[0-9a-f]{9}$/) as unknown }] },
          { tool_call_id: expect.stringMatching(/^[0-9a-f]{9}$/) as unknown },
        ],
      },
    ],
    [
      "sampling of a chat's own",
      "gpt-5",
      "chat/completions",
      { ...hello, temperature: 0.5, stop: "x" },
      { temperature: 0.5, stop: "x" },
    ],
    [
      "tools with an effort",
      "gpt-5.6",
      "messages",
      messageWithTools,
      { endpoint: "responses", reasoning: { effort: "max" } },
    ],
    [
      "tools without an effort",
      "gpt-5.6",
      "chat/completions",
      withTools,
      { endpoint: "responses", reasoning: undefined },
    ],
    [
      "tools with no reasoning",
      "gpt-5.6",
      "chat/completions",
      { ...withTools, reasoning_effort: "none" },
      { endpoint: "chat/completions" },
    ],
    [
      "no tools",
      "gpt-5.6",
      "chat/completions",
      { ...hello, reasoning_effort: "high" },
      { endpoint: "chat/completions" },
    ],
    [
      "tools without an effort of an older model",
      "gpt-5.4",
      "chat/completions",
      withTools,
      { endpoint: "chat/completions" },
    ],
    [
      "tools with an effort of an older model",
      "gpt-5.4",
      "chat/completions",
      { ...withTools, reasoning_effort: "high" },
      { endpoint: "responses" },
    ],
    [
      "tools where the route has no responses",
      "gpt-5.6 without responses",
      "chat/completions",
      withTools,
      { endpoint: "chat/completions" },
    ],
    [
      "fields that the provider refuses",
      "dropping",
      "chat/completions",
      { ...hello, prompt_cache_key: "k", user: "u" },
      { prompt_cache_key: undefined, user: undefined },
    ],
    [
      "a bound above the model's",
      "plain",
      "messages",
      { ...message, max_tokens: 32_000 },
      { max_tokens: 1000 },
    ],
    [
      "a bound above the model's in a chat's own",
      "plain",
      "chat/completions",
      { ...hello, max_tokens: 32_000 },
      { max_tokens: 32_000 },
    ],
    [
      "a bound above Claude's in a chat",
      "claude",
      "chat/completions",
      { ...hello, max_tokens: 32_000 },
      { max_tokens: 1000 },
    ],
    [
      "an effort within the bound",
      "gemini",
      "chat/completions",
      { ...hello, max_tokens: 400, reasoning_effort: "high" },
      {
        generationConfig: {
          maxOutputTokens: 400,
          thinkingConfig: { thinkingBudget: 300, includeThoughts: true },
        },
      },
    ],
    [
      "JSON beside tools of an older Gemini",
      "gemini",
      "chat/completions",
      { ...withTools, response_format: { type: "json_object" } },
      {
        generationConfig: undefined,
        systemInstruction: {
          parts: [{ text: expect.stringContaining("exactly one JSON object") as unknown }],
        },
      },
    ],
    [
      "no reasoning of Gemini",
      "gemini",
      "chat/completions",
      { ...hello, reasoning_effort: "none" },
      { generationConfig: { thinkingConfig: { thinkingBudget: 0, includeThoughts: true } } },
    ],
    [
      "no reasoning of a Gemini that always reasons",
      "gemini pro",
      "chat/completions",
      { ...hello, reasoning_effort: "none" },
      { generationConfig: { thinkingConfig: { thinkingBudget: 128, includeThoughts: true } } },
    ],
    [
      "no reasoning of Claude",
      "claude",
      "chat/completions",
      { ...hello, reasoning_effort: "none" },
      { thinking: undefined, output_config: undefined },
    ],
    [
      "ids of calls",
      "mistral",
      "messages",
      {
        ...message,
        messages: [
          {
            role: "assistant",
            content: [{ type: "tool_use", id: "toolu_1", name: "look", input: {} }],
          },
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "b" }],
          },
        ],
      },
      {
        messages: [
          { role: "user" },
          { tool_calls: [{ id: expect.stringMatching(/^[0-9a-f]{9}$/) as unknown }] },
          { tool_call_id: expect.stringMatching(/^[0-9a-f]{9}$/) as unknown },
        ],
      },
    ],
  ];
  test.each(rows)("%s", async (_, route, path, body, expected) => {
    const sent = await asked(route, path, body);
    for (const [name, value] of Object.entries(expected) as [string, unknown][]) {
      if (value === undefined) expect(sent).not.toHaveProperty(name);
      else expect(sent).toMatchObject({ [name]: value });
    }
  });

  test("a schema keeps the digits of its numbers when it is filled in", async () => {
    const text = JSON.stringify({
      model: "plain",
      ...message,
      tools: [{ name: "look", input_schema: { type: "object", default: 0 } }],
    });
    at.providers.peer.answer = refusal(400, "asked");
    const body = text.replace('"default":0', '"default":12345678901234567890');
    await call(at.gateway, await at.gateway.key(), { path: "/v1/messages", body });
    expect(at.providers.peer.requests[0]?.body).toContain('"default":12345678901234567890');
  });
});

test("an effort beyond the specification is refused unless the config allows it", async () => {
  const body = { model: "plain", ...hello, reasoning_effort: "minimal" };
  const reply = await call(at.gateway, await at.gateway.key(), { body });
  expect(reply.body).toMatchObject({
    error: { message: "reasoning_effort must be one of: none, low, medium, high, xhigh, max" },
  });
});

describe("the hold", () => {
  const property = { type: "string", description: "y".repeat(3000) };
  const variant = { type: "object", properties: { a: property }, required: ["a"] };
  const schema = { anyOf: [variant, { ...variant, required: [] }] };
  const tool = { name: "look", input_schema: schema };
  const chatTool = { type: "function", function: { name: "look", parameters: schema } };
  const rows: readonly [string, Route, string, object, object][] = [
    ["a message", "plain", "messages", { ...message, tools: [tool] }, { max_tokens: 1 }],
    [
      "a chat over Claude",
      "claude",
      "chat/completions",
      { ...hello, tools: [chatTool] },
      { max_tokens: 1 },
    ],
    [
      "a chat over responses",
      "gpt-5.6",
      "chat/completions",
      { ...hello, tools: [chatTool] },
      { max_tokens: 1 },
    ],
    [
      "a response",
      "plain",
      "responses",
      { input: "a", tools: [{ type: "function", ...chatTool.function }] },
      { max_output_tokens: 1 },
    ],
  ];
  test.each(rows)(
    "pays for the parameters that a tool of %s gets",
    async (_, route, path, body, bound) => {
      await asked(route, path, body);
      const sent = Buffer.byteLength(at.providers.peer.requests[0]?.body ?? "");
      // Enough for the least that any request costs.
      const poor = await at.gateway.key({ balance: 20_000_000n });
      const model = route.replaceAll(" ", "-");
      const { body: refused } = await call(at.gateway, poor, {
        path: `/v1/${path}`,
        body: { model, ...body, ...bound },
      });
      const { required_rub: required } = (refused as { error: { required_rub: string } }).error;
      const promptTokens = (Number(required) * 1e9 - prices.output) / prices.cacheWrite;
      expect(promptTokens).toBeGreaterThan(sent * 0.95);
    },
  );
});
