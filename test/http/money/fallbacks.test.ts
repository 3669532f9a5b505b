import { describe, expect, test } from "bun:test";
import { chat, chunksOf } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { message } from "../../support/provider/anthropicAnswers.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { cut, json, refusal, streamHead } from "../../support/provider/scriptedProvider.ts";

const dear = {
  rub_input_per_1m: 100_000,
  rub_output_per_1m: 900_000,
  rub_cached_input_per_1m: 100_000,
  rub_cache_write_per_1m: 100_000,
};

const at = openBefore(["main", "spare", "claude"], ({ main, spare, claude }) => ({
  providers: {
    main: { base_url: main, total_timeout: "10s" },
    spare: { base_url: spare },
    claude: { base_url: claude, kind: "anthropic" },
  },
  models: [
    {
      id: "small",
      routes: [{ provider: "main" }, { provider: "main", model: "small-2" }],
      settings: { fallbacks: ["dear", "claude"] },
    },
    { id: "dear", routes: [{ provider: "spare" }], settings: { ...dear, max_output_tokens: 50 } },
    {
      id: "claude",
      routes: [{ provider: "claude", responses: false }],
      settings: { max_output_tokens: 20 },
    },
    {
      id: "wide",
      routes: ["a", "b", "c"].map((model) => ({ provider: "main", model })),
      settings: { fallbacks: ["wider"] },
    },
    { id: "wider", routes: ["a", "b"].map((model) => ({ provider: "spare", model })) },
    { id: "alone", routes: [{ provider: "main" }] },
  ],
}));

/** The prices of the model `dear` for the usual answer. */
const dearCharge = (prompt: number, completion: number): bigint =>
  BigInt(prompt) * 100_000n + BigInt(completion) * 900_000n;

describe("a model with fallbacks", () => {
  test.each([false, true])("is answered by itself first, stream %p", async (isStream) => {
    at.providers.main.answer = usual;
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: isStream });
    expect(reply.headers.get("x-tollgate-model")).toBe("small");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ model: "small", status: "done" }]);
  });

  test.each([
    ["an error", refusal(500), false],
    ["an error", refusal(500), true],
    ["a cut before the content", cut("fin", streamHead), true],
  ])("is answered by the next model after %s, which is charged", async (_, answer, isStream) => {
    at.providers.main.answer = answer;
    at.providers.spare.answer = usual;
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: isStream });
    expect([reply.status, reply.headers.get("x-tollgate-model")]).toEqual([200, "dear"]);
    if (isStream) expect(chunksOf(reply)[0]).toMatchObject({ model: "dear" });
    else expect(reply.body).toMatchObject({ model: "dear" });
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({
      model: "dear",
      provider: "spare",
      status: "done",
      charge: dearCharge(record?.promptTokens ?? 0, record?.completionTokens ?? 0),
      attemptCount: 3,
    });
    expect(record?.charge).toBeGreaterThan(0n);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - (record?.charge ?? 0n));
  });

  test("tries all routes of each model before the next one", async () => {
    at.providers.main.answer = refusal(500);
    at.providers.spare.answer = refusal(503);
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { max_tokens: 500 });
    expect(reply.body).toMatchObject({ model: "claude" });
    expect(at.providers.main.requests).toHaveLength(2);
    // A fallback may generate less than the model that was asked for.
    expect(at.providers.spare.requests[0]?.json).toMatchObject({ max_tokens: 50 });
    expect(at.providers.claude.requests[0]?.json).toMatchObject({ max_tokens: 20 });
    expect(at.providers.main.requests[0]?.json).toMatchObject({ max_tokens: 500 });
  });

  test("holds the most that the dearest can cost", async () => {
    at.providers.main.answer = usual;
    const key = await at.gateway.key();
    await chat(at.gateway, key, { max_tokens: 50 });
    await chat(at.gateway, key, { model: "alone", max_tokens: 50 });
    const [alone, small] = await at.gateway.records(key, 2);
    expect(small?.hold).toBeGreaterThan((alone?.hold ?? 0n) * 3n);
  });

  test("passes over a fallback that the key may not use", async () => {
    at.providers.main.answer = refusal(500);
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key({ models: ["small", "claude"] });
    expect((await chat(at.gateway, key)).body).toMatchObject({ model: "claude" });
    expect(at.providers.spare.requests).toEqual([]);
  });

  test("is not replaced if the caller is at fault, or after content", async () => {
    at.providers.main.answer = refusal(400);
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(400);
    expect(at.providers.spare.requests).toEqual([]);
  });

  test("passes over a fallback without a price or without room for the reasoning", async () => {
    at.providers.main.answer = refusal(500);
    at.providers.spare.answer = refusal(500);
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key();
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const system = [{ type: "text", text: "a", cache_control: { type: "ephemeral", ttl: "1h" } }];
    for (const change of [{ max_tokens: 2000, thinking }, { system }]) {
      at.gateway.forgetFailures();
      expect((await sendMessage(at.gateway, key, change)).status).toBe(502);
    }
    expect(at.providers.claude.requests).toEqual([]);
  });

  test("makes at most two attempts and one for each further model without the retry budget", async () => {
    for (const provider of Object.values(at.providers)) provider.answer = refusal(500);
    const { retryBudget } = at.gateway.app.gateway;
    const releases = Array.from({ length: 100 }, () => retryBudget.take(0)).filter(Boolean);
    try {
      await chat(at.gateway, await at.gateway.key(), { model: "wide" });
      expect(at.providers.main.requests).toHaveLength(2);
      expect(at.providers.spare.requests).toHaveLength(1);
    } finally {
      for (const release of releases) release?.();
    }
  });

  test("fails with 502 if all fail", async () => {
    for (const provider of Object.values(at.providers)) provider.answer = refusal(500);
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key)).status).toBe(502);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("may be answered by another interface in a message", async () => {
    at.providers.main.answer = refusal(500);
    at.providers.spare.answer = refusal(500);
    at.providers.claude.answer = json(message());
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key);
    expect(reply.text).toBe(JSON.stringify(message()));
    expect(reply.headers.get("x-tollgate-model")).toBe("claude");
    expect(at.providers.claude.requests[0]?.json).toMatchObject({ max_tokens: 20 });
  });
});

test("a model without fallbacks has no header of its own", async () => {
  at.providers.main.answer = usual;
  const reply = await chat(at.gateway, await at.gateway.key(), { model: "alone" });
  expect(reply.headers.get("x-tollgate-model")).toBeNull();
});
