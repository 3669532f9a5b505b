import { describe, expect, test } from "bun:test";
import { chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { message, messageUsage } from "../../support/provider/anthropicAnswers.ts";
import { json } from "../../support/provider/scriptedProvider.ts";

const CACHE_WRITE_1H = 50_000;
const CONTEXT = 1000;
const MAX_TOKENS = 100;

const sold = {
  rub_cache_write_1h_per_1m: CACHE_WRITE_1H,
  context_tokens: CONTEXT,
  max_output_tokens: MAX_TOKENS,
};
const free = { free: true, max_output_tokens: MAX_TOKENS };
const nothing = {
  rub_input_per_1m: 0,
  rub_output_per_1m: 0,
  rub_cached_input_per_1m: 0,
  rub_cache_write_per_1m: 0,
};

const at = openBefore(["claude", "other"], ({ claude, other }) => {
  const native = { provider: "claude", responses: false };
  return {
    providers: {
      claude: { base_url: claude, kind: "anthropic", api_key: "sk-ant-0123" },
      other: { base_url: other },
    },
    models: [
      { id: "small", routes: [native], settings: sold },
      { id: "free", routes: [native], settings: { ...nothing, ...free } },
      { id: "unsold", routes: [native] },
      { id: "mixed", routes: [native, { provider: "other" }], settings: sold },
      { id: "foreign", routes: [{ provider: "other" }], settings: sold },
    ],
  };
});

/** A chat with a part that is to be kept for this time. Its bytes exceed the model's context. */
function keeping(ttl: unknown) {
  const text = "x".repeat(2 * CONTEXT);
  const part = { type: "text", text, cache_control: { type: "ephemeral", ttl } };
  return { messages: [{ role: "user", content: [part] }] };
}

describe("a chat whose prompt is to be kept in the cache for an hour", () => {
  test("is sent to a model that sells it, held at its price, and charged by the reported lifetimes", async () => {
    const lifetimes = { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 };
    const usage = { ...messageUsage, cache_creation: lifetimes };
    at.providers.claude.answer = json(message({ usage }));
    const key = await at.gateway.key();
    const { status, body } = await chat(at.gateway, key, keeping("1h"));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      usage: { prompt_tokens_details: { cache_write_tokens: 3, cache_write_1h_tokens: 2 } },
    });
    expect(at.providers.claude.requests[0]?.json).toMatchObject(keeping("1h"));
    const charge =
      12 * prices.input +
      5 * prices.cachedInput +
      prices.cacheWrite +
      2 * CACHE_WRITE_1H +
      7 * prices.output;
    expect(await at.gateway.records(key, 1)).toMatchObject([
      {
        cacheWriteTokens: 3,
        cacheWrite1hTokens: 2,
        charge: BigInt(charge),
        hold: BigInt(CONTEXT * CACHE_WRITE_1H + MAX_TOKENS * prices.output),
      },
    ]);
  });

  test("is the same with the mark beside the content of the message", async () => {
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key();
    const content = "x".repeat(2 * CONTEXT);
    const cache_control = { type: "ephemeral", ttl: "1h" };
    const marked = { messages: [{ role: "user", content, cache_control }] };
    expect((await chat(at.gateway, key, marked)).status).toBe(200);
    expect(at.providers.claude.requests[0]?.json).toMatchObject(keeping("1h"));
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { hold: BigInt(CONTEXT * CACHE_WRITE_1H + MAX_TOKENS * prices.output) },
    ]);
    expect((await chat(at.gateway, key, { ...marked, model: "unsold" })).status).toBe(400);
  });

  test("is free where all is free", async () => {
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { ...keeping("1h"), model: "free" })).status).toBe(200);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ charge: 0n, hold: 0n }]);
  });

  test.each([
    ["a model without a price for it", "unsold", "1h"],
    ["a model with a route that does not report lifetimes", "mixed", "1h"],
    ["a model without a route that reports lifetimes", "foreign", "1h"],
    ["another time than an hour", "small", "2h"],
    ["a time that is no text", "small", 3600],
  ])("is refused before anything is sent: %s", async (_, model, ttl) => {
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { ...keeping(ttl), model }), [
      400,
      "invalid_request_error",
      "cache_control beyond 5m is not supported",
    ]);
    expect(at.providers.claude.requests).toEqual([]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n);
  });
});

test("a chat with five minutes is held at the usual prices", async () => {
  at.providers.claude.answer = json(message());
  const key = await at.gateway.key();
  expect((await chat(at.gateway, key, keeping("5m"))).status).toBe(200);
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { hold: BigInt(CONTEXT * prices.cacheWrite + MAX_TOKENS * prices.output) },
  ]);
});
