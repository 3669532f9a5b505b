import { describe, expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal, tooOften } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { formatRoubles } from "../../../src/lib/money.ts";

/** Nano-roubles for one completion token, and for one prompt token where it has a price. */
const TOKEN = 1000n;
/** The hold for the prompt of `priced`: its context, for any length of body. */
const PROMPT = 100n * TOKEN;
const MAX_TOKENS = 1000;
/** `[billing] min_output_tokens`, as it is by default. */
const LEAST = 16;

const onlyAnswers = {
  free: true,
  rub_input_per_1m: 0,
  rub_cached_input_per_1m: 0,
  rub_cache_write_per_1m: 0,
  rub_output_per_1m: Number(TOKEN),
  max_output_tokens: MAX_TOKENS,
};
const at = openBefore(["local"], ({ local }) => ({
  providers: { local, renaming: { base_url: local, max_tokens_field: "max_completion_tokens" } },
  models: [
    { id: "small", routes: [{ provider: "local" }], settings: onlyAnswers },
    { id: "renamed", routes: [{ provider: "renaming" }], settings: onlyAnswers },
    {
      id: "short",
      routes: [{ provider: "local" }],
      settings: { ...onlyAnswers, max_output_tokens: 10 },
    },
    {
      id: "gift",
      routes: [{ provider: "local" }],
      settings: { ...onlyAnswers, rub_output_per_1m: 0 },
    },
    {
      id: "priced",
      routes: [{ provider: "local" }],
      settings: {
        ...onlyAnswers,
        rub_input_per_1m: Number(TOKEN),
        context_tokens: Number(PROMPT / TOKEN),
      },
    },
  ],
  sections: { billing: { hold_wait: "200ms" } },
}));

/** Answers with this many tokens to a prompt of 5. */
function says(completion: number): void {
  at.providers.local.answer = answered({
    usage: { prompt_tokens: 5, completion_tokens: completion },
  });
}

/** The bound that the provider received, under any name. */
async function sentBound(index = 0): Promise<Record<string, unknown>> {
  const { json } = await at.providers.local.request(index);
  return Object.fromEntries(Object.entries(json).filter(([name]) => name.startsWith("max_")));
}

const lacking = (required: bigint, available: bigint) => ({
  code: "insufficient_balance",
  required_rub: formatRoubles(required),
  available_rub: formatRoubles(available),
});
const poor = [402, "billing_error", "insufficient balance"] as const;

describe("a chat without a bound", () => {
  test("is sent without a bound while the account can pay the model's", async () => {
    says(MAX_TOKENS);
    const key = await at.gateway.key({ balance: BigInt(MAX_TOKENS) * TOKEN });
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(await sentBound()).toEqual({});
    expect(await at.gateway.balance(key)).toBe(0n);
  });

  test.each([
    ["in JSON", {}],
    ["in a stream", { stream: true }],
    ["with a null bound", { max_tokens: null, max_completion_tokens: null }],
  ])("is sent with the bound that the account can pay: %s", async (_, changes) => {
    says(7);
    const key = await at.gateway.key({ balance: 500n * TOKEN + 999n });
    await chat(at.gateway, key, changes);
    expect(await sentBound()).toEqual({ max_tokens: 500 });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ hold: 500n * TOKEN }]);
  });

  test("is sent with it under the provider's name for it", async () => {
    says(7);
    await chat(at.gateway, await at.gateway.key({ balance: 500n * TOKEN }), { model: "renamed" });
    expect(await sentBound()).toEqual({ max_completion_tokens: 500 });
  });

  test("divides what the account can pay among its choices", async () => {
    says(7);
    const key = await at.gateway.key({ balance: 500n * TOKEN });
    await chat(at.gateway, key, { n: 3 });
    expect(await sentBound()).toEqual({ max_tokens: 166 });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ hold: 498n * TOKEN }]);
  });

  test.each([1, 3])(
    "is served down to min_output_tokens for each of %d choices, and not below",
    async (n) => {
      says(7);
      const least = BigInt(LEAST * n) * TOKEN;
      const enough = await chat(at.gateway, await at.gateway.key({ balance: least }), { n });
      expect([enough.status, await sentBound()]).toEqual([200, { max_tokens: LEAST }]);
      const key = await at.gateway.key({ balance: least - 1n });
      expectRefusal(await chat(at.gateway, key, { n }), poor, lacking(least, least - 1n));
      expect(at.providers.local.requests).toHaveLength(1);
    },
  );

  test("of a model with a bound under min_output_tokens needs all of it", async () => {
    says(7);
    const whole = await chat(at.gateway, await at.gateway.key({ balance: 10n * TOKEN }), {
      model: "short",
    });
    expect([whole.status, await sentBound()]).toEqual([200, {}]);
    const key = await at.gateway.key({ balance: 10n * TOKEN - 1n });
    const refused = await chat(at.gateway, key, { model: "short" });
    expectRefusal(refused, poor, lacking(10n * TOKEN, 10n * TOKEN - 1n));
  });

  test("holds its prompt first", async () => {
    says(7);
    const key = await at.gateway.key({ balance: PROMPT + 50n * TOKEN });
    expect((await chat(at.gateway, key, { model: "priced" })).status).toBe(200);
    expect(await sentBound()).toEqual({ max_tokens: 50 });
  });

  test("is refused when its prompt alone is too expensive, with the required amount", async () => {
    const key = await at.gateway.key({ balance: PROMPT - 1n });
    const refused = await chat(at.gateway, key, { model: "priced" });
    expectRefusal(refused, poor, lacking(PROMPT + BigInt(LEAST) * TOKEN, PROMPT - 1n));
    expect(at.providers.local.requests).toEqual([]);
  });

  test("counts the overdraft as money", async () => {
    says(7);
    const key = await at.gateway.key({ balance: 20n * TOKEN, overdraft: 30n * TOKEN });
    await chat(at.gateway, key);
    expect(await sentBound()).toEqual({ max_tokens: 50 });
  });

  test("is bounded by the rest of the key's budget too", async () => {
    says(40);
    const key = await at.gateway.key({ budget: 100n * TOKEN });
    await chat(at.gateway, key);
    await chat(at.gateway, key);
    expect([await sentBound(0), await sentBound(1)]).toEqual([
      { max_tokens: 100 },
      { max_tokens: 60 },
    ]);
    says(10);
    expect((await chat(at.gateway, key)).status).toBe(200);
    const left = 10n * TOKEN;
    expectRefusal(await chat(at.gateway, key), poor, lacking(BigInt(LEAST) * TOKEN, left));
  });

  test("needs no money when it is free, and is sent without a bound", async () => {
    says(7);
    const key = await at.gateway.key({ balance: 0n });
    expect((await chat(at.gateway, key, { model: "gift" })).status).toBe(200);
    expect(await sentBound()).toEqual({});
    expect(await at.gateway.records(key, 1)).toMatchObject([{ hold: 0n, charge: 0n }]);
  });

  test("needs no budget when it is free, also when the budget is overspent", async () => {
    says(150);
    const key = await at.gateway.key({ budget: 100n * TOKEN });
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect((await at.gateway.store.keys.find(key.id))?.spent).toBe(150n * TOKEN);
    expect((await chat(at.gateway, key, { model: "gift" })).status).toBe(200);
    expect(await at.gateway.records(key, 2)).toMatchObject([{ hold: 0n, charge: 0n }, {}]);
    expectRefusal(await chat(at.gateway, key), poor, lacking(BigInt(LEAST) * TOKEN, 0n));
  });

  test("uses a small balance completely, and never overdraws it", async () => {
    says(30);
    const key = await at.gateway.key({ balance: 100n * TOKEN });
    const statuses: number[] = [];
    for (let round = 0; round < 4; round += 1) statuses.push((await chat(at.gateway, key)).status);
    expect(statuses).toEqual([200, 200, 200, 402]);
    const bounds = await Promise.all([0, 1, 2].map(sentBound));
    expect(bounds).toEqual([100, 70, 40].map((bound) => ({ max_tokens: bound })));
    expect(await at.gateway.balance(key)).toBe(10n * TOKEN);
  });
});

describe("a bound is never changed", () => {
  test.each(["max_tokens", "max_completion_tokens", "max_output_tokens"])(
    "that the caller gave as %s: the request is refused",
    async (name) => {
      const key = await at.gateway.key({ balance: 499n * TOKEN });
      const refused = await chat(at.gateway, key, { [name]: 500 });
      expectRefusal(refused, poor, lacking(500n * TOKEN, 499n * TOKEN));
      says(7);
      expect((await chat(at.gateway, key, { [name]: 499 })).status).toBe(200);
      expect(await sentBound()).toEqual({ max_tokens: 499 });
    },
  );

  test("in a response: it is refused when the account cannot pay the model's bound", async () => {
    const key = await at.gateway.key({ balance: BigInt(MAX_TOKENS) * TOKEN - 1n });
    const refused = await respond(at.gateway, key);
    const all = BigInt(MAX_TOKENS) * TOKEN;
    expectRefusal(refused, poor, lacking(all, all - 1n));
    expect(at.providers.local.requests).toEqual([]);
  });
});

/** The first request waits at its provider while it holds its money. */
async function whileHeld(key: TestKey, held: number, work: () => Promise<void>): Promise<void> {
  const go = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    if (request.json["max_tokens"] === held) await go.promise;
    await answered({ usage: { prompt_tokens: 5, completion_tokens: 0 } })(peer, request);
  };
  const first = chat(at.gateway, key, { max_tokens: held });
  await at.providers.local.request(0);
  await work().finally(() => go.resolve());
  expect((await first).status).toBe(200);
}

describe("beside another open request", () => {
  test("a bound is reduced to the available money, without waiting", async () => {
    const key = await at.gateway.key({ balance: 500n * TOKEN });
    await whileHeld(key, 450, async () => {
      expect((await chat(at.gateway, key)).status).toBe(200);
      expect(await sentBound(1)).toEqual({ max_tokens: 50 });
    });
  });

  test("a request waits when less than min_output_tokens is available", async () => {
    const key = await at.gateway.key({ balance: 500n * TOKEN });
    await whileHeld(key, 490, async () => {
      const refused = await chat(at.gateway, key);
      expectRefusal(refused, tooOften, {
        ...lacking(BigInt(LEAST) * TOKEN, 10n * TOKEN),
        code: "balance_held",
      });
    });
    expect((await chat(at.gateway, key)).status).toBe(200);
  });

  test("the holds of a key's open requests reduce its budget", async () => {
    const key = await at.gateway.key({ budget: 500n * TOKEN });
    await whileHeld(key, 450, async () => {
      expect((await chat(at.gateway, key)).status).toBe(200);
      expect(await sentBound(1)).toEqual({ max_tokens: 50 });
    });
    await whileHeld(key, 490, async () => {
      const refused = await chat(at.gateway, key);
      expectRefusal(refused, poor, lacking(BigInt(LEAST) * TOKEN, 10n * TOKEN));
    });
  });
});

describe("a provider that exceeds a reduced bound", () => {
  test("is charged up to the account's money; the rest is written off", async () => {
    says(80);
    const key = await at.gateway.key({ balance: 50n * TOKEN + 7n });
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(await sentBound()).toEqual({ max_tokens: 50 });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { charge: 50n * TOKEN + 7n, writeOff: 30n * TOKEN - 7n, completionTokens: 80 },
    ]);
    expect(await at.gateway.balance(key)).toBe(0n);
  });

  test("is charged above the hold when the account has more", async () => {
    says(80);
    const key = await at.gateway.key({ balance: 500n * TOKEN, budget: 50n * TOKEN });
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { hold: 50n * TOKEN, charge: 80n * TOKEN, writeOff: 0n },
    ]);
  });

  test("and reports no usage is estimated at no more than the hold", async () => {
    const message = { role: "assistant", content: "word ".repeat(1000) };
    const choices = [{ index: 0, finish_reason: "stop", message }];
    at.providers.local.answer = answered({ usage: null, choices });
    const key = await at.gateway.key({ balance: 50n * TOKEN + 7n });
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { estimated: true, charge: 50n * TOKEN, writeOff: 0n, completionTokens: 50 },
    ]);
  });
});
