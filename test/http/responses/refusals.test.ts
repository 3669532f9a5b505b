import { describe, expect, test } from "bun:test";
import { prices } from "../../support/gateway/gatewayConfig.ts";
import { noPrice, unsold, unsoldTier } from "../../support/gateway/noPrice.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { rouble } from "../../support/gateway/testApp.ts";

const contextTokens = 5000;
const maxOutputTokens = 1000;

const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    {
      id: "small",
      routes: [{ provider: "local" }],
      settings: { context_tokens: contextTokens, max_output_tokens: maxOutputTokens },
    },
    { id: "chat-only", routes: [{ provider: "local", responses: false }] },
    {
      id: "half",
      routes: [{ provider: "local", model: "chat-half", responses: false }, { provider: "local" }],
    },
  ],
  sections: {
    api: { shared_objects: ["file_1", "pmpt_1"], refused_tools: ["image_generation"] },
  },
}));

/** Requests that are refused before anything is held or sent. */
const refusals = [
  ["no model", { model: undefined }, "model is required"],
  ["a model that is not a string", { model: 5 }, "model must be a string"],
  [
    "a model without the interface, and responses that are kept",
    { model: "chat-only", store: true },
    "this model does not keep responses: set store to false",
  ],
  ["background", { background: true }, "background is not supported"],
  ["background of another type", { background: "yes" }, "background is not supported"],
  ["service_tier flex", { service_tier: "flex" }, unsoldTier("service_tier", "flex")],
  ["service_tier priority", { service_tier: "priority" }, unsoldTier("service_tier", "priority")],
  ["service_tier fast", { service_tier: "fast" }, unsoldTier("service_tier", "priority")],
  ...["plugins", "web_search_options", "speed", "search_parameters"].map(
    (field) => [field, { [field]: "x" }, `${field} is not supported: ${noPrice}`] as const,
  ),
  [
    "made_next_month",
    { tools: [{ type: "made_next_month" }] },
    `tools of the type made_next_month are not supported: ${noPrice}`,
  ],
  [
    "modalities",
    { modalities: "x" },
    `modalities is not supported: ${unsold("modalities", "rub_audio_output_per_1m", "rub_image_output_per_1m")}`,
  ],
  ...["code_interpreter", "shell"].map(
    (type) =>
      [
        type,
        { tools: [{ type }] },
        `tools of the type ${type} are not supported: ${unsold(type, "rub_code_session_per_1k")}`,
      ] as const,
  ),
  ...["models", "route", "provider"].map(
    (field) => [field, { [field]: "x" }, `${field} is not supported`] as const,
  ),
  [
    "a tool of a refused type",
    { tools: [{ type: "image_generation" }] },
    "tools of the type image_generation are not supported",
  ],
  ["a stream that is not a boolean", { stream: "true" }, "stream must be a boolean"],
  ["max_output_tokens of 0", { max_output_tokens: 0 }, "max_output_tokens must be at least 1"],
  ["max_output_tokens of 0.5", { max_output_tokens: 1.5 }, "max_output_tokens must be an integer"],
  [
    "two bounds",
    { max_output_tokens: 5, max_tokens: 6 },
    "max_tokens and max_output_tokens must not differ",
  ],
  ["a key in another letter case", { Model: "dear" }, "Model is not supported"],
  [
    "an id in another letter case",
    { input: [{ id: "x", File_Id: "y" }] },
    "File_Id is not supported",
  ],
  [
    "an id that is not a string",
    { input: [{ type: "item_reference", id: 5 }] },
    "id must be a string",
  ],
] as const;

describe("a responses request with", () => {
  test.each(refusals)("%s is a 400, and nothing is sent or held", async (_, changes, message) => {
    const key = await at.gateway.key();
    for (const stream of [false, true]) {
      expect(await respond(at.gateway, key, { stream, ...changes })).toMatchObject({
        status: 400,
        body: { error: { message, type: "invalid_request_error" } },
      });
    }
    expect(at.providers.local.requests).toEqual([]);
    expect(await at.gateway.records(key, 0)).toEqual([]);
  });

  test.each([
    '{"model":"small","input":"a","input":"b"}',
    '{"model":"small","mod\\u0065l":"chat-only","input":"a"}',
    '{"model":"small","input":[{"role":"user","content":"a","role":"system"}]}',
  ])("a duplicate key is a 400, and nothing is sent: %s", async (body) => {
    const reply = await respond(at.gateway, await at.gateway.key(), body);
    expect(reply).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/^(input|model|role) stands twice$/) } },
    });
    expect(at.providers.local.requests).toEqual([]);
  });

  test.each([
    ["background: false", { background: false }],
    ["service_tier auto", { service_tier: "auto" }],
    ["service_tier default", { service_tier: "default" }],
    ["nulls", { background: null, service_tier: null, plugins: null, previous_response_id: null }],
    ["no input", { input: undefined, instructions: "be kind" }],
    ["unknown fields", { future_field: { a: [1] }, reasoning: { effort: "high" } }],
  ])("%s is sent to the provider unchanged", async (_, changes) => {
    at.providers.local.answer = responds();
    expect((await respond(at.gateway, await at.gateway.key(), changes)).status).toBe(200);
    const sent = JSON.parse(
      JSON.stringify({ model: "small", input: "hello", ...changes }),
    ) as object;
    expect(at.providers.local.requests[0]?.json).toEqual(sent as Record<string, unknown>);
  });

  test("a model with one route that has the interface takes that route", async () => {
    at.providers.local.answer = responds();
    await respond(at.gateway, await at.gateway.key(), { model: "half" });
    expect(at.providers.local.requests.map(({ json }) => json["model"])).toEqual(["half"]);
  });

  test("more than the account can pay is a 402 with the amounts, and nothing is sent", async () => {
    const key = await at.gateway.key({ balance: rouble / 10n });
    for (const stream of [false, true]) {
      expect(await respond(at.gateway, key, { stream })).toMatchObject({
        status: 402,
        body: {
          error: {
            message: "insufficient balance",
            type: "billing_error",
            code: "insufficient_balance",
            required_rub: expect.stringMatching(/^0\.2\d+$/),
            available_rub: "0.1",
          },
        },
      });
    }
    expect(at.providers.local.requests).toEqual([]);
  });
});

/** The hold for a prompt whose bytes bound its tokens: the bytes, and what a provider may add. */
const boundedBytes = (body: string) => Buffer.byteLength(body) + 256;
const message = (...content: readonly object[]) => ({ input: [{ role: "user", content }] });

/** Prompts whose tokens the request's own bytes bound, and prompts that may bring in more. */
const prompts: readonly (readonly [name: string, changes: object, isBounded: boolean])[] = [
  ["a text", { input: "hello и 😀" }, true],
  ["text parts", message({ type: "input_text", text: "hello" }), true],
  ["a function of the caller", { tools: [{ type: "function", name: "f", parameters: {} }] }, true],
  ["an image", message({ type: "input_image", image_url: "https://example.org/a.png" }), false],
  ["a file in the body", message({ type: "input_file", file_data: "aGk=" }), false],
  ["a file by its id", message({ type: "input_file", file_id: "file_1" }), false],
  ["a stored prompt", { prompt: { id: "pmpt_1" } }, false],
  ["a web search", { tools: [{ type: "web_search" }] }, false],
  [
    "a tool of another server",
    { tools: [{ type: "mcp", server_url: "https://example.org" }] },
    false,
  ],
];

describe("the hold", () => {
  /** The cost of these tokens at the highest input price and the output price. */
  const holdOf = (prompt: number, completion: number) =>
    BigInt(prompt) * BigInt(prices.cacheWrite) + BigInt(completion) * BigInt(prices.output);

  test.each(prompts)(
    "covers the most that a prompt with %s can cost",
    async (_, changes, isBounded) => {
      at.providers.local.answer = responds();
      const key = await at.gateway.key();
      const body = JSON.stringify({ model: "small", input: "hello", ...changes });
      expect((await respond(at.gateway, key, body)).status).toBe(200);
      const tokens = isBounded ? boundedBytes(body) : contextTokens;
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { hold: holdOf(tokens, maxOutputTokens) },
      ]);
    },
  );

  test("counts the whole context for a request that continues another", async () => {
    at.providers.local.answer = responds("resp_own");
    const key = await at.gateway.key();
    await respond(at.gateway, key);
    await respond(at.gateway, key, { previous_response_id: "resp_own" });
    const [record] = await at.gateway.records(key, 2);
    expect(record?.hold).toBe(holdOf(contextTokens, maxOutputTokens));
  });

  test("counts no more than the context for a long text", async () => {
    at.providers.local.answer = responds();
    const key = await at.gateway.key();
    await respond(at.gateway, key, { input: "word ".repeat(2000) });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { hold: holdOf(contextTokens, maxOutputTokens) },
    ]);
  });

  test("uses the caller's bound of the completion, which is sent unchanged", async () => {
    at.providers.local.answer = responds();
    const key = await at.gateway.key();
    const body = '{"model":"small","input":"hello","max_output_tokens":40}';
    await respond(at.gateway, key, body);
    expect(at.providers.local.requests[0]?.body).toBe(body);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { hold: holdOf(boundedBytes(body), 40) },
    ]);
  });
});
