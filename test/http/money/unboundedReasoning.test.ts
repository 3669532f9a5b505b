import { describe, expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { formatRoubles } from "../../../src/lib/money.ts";

/** A provider whose bound does not include reasoning, as its config states. */
const TOKEN = 1000n;
const MAX_TOKENS = 1000;
const at = openBefore(["local"], ({ local }) => ({
  providers: { local: { base_url: local, bounds_reasoning: false }, bounding: local },
  models: [
    {
      id: "small",
      routes: [{ provider: "bounding" }, { provider: "local" }],
      settings: {
        free: true,
        rub_input_per_1m: 0,
        rub_cached_input_per_1m: 0,
        rub_cache_write_per_1m: 0,
        rub_output_per_1m: Number(TOKEN),
        max_output_tokens: MAX_TOKENS,
      },
    },
  ],
}));
const whole = BigInt(MAX_TOKENS) * TOKEN;

describe("a model with a route whose bound excludes reasoning holds all that it may generate", () => {
  test.each([
    ["with the caller's bound, which is sent unchanged", { max_tokens: 1 }, { max_tokens: 1 }],
    ["without a bound, and none is sent", {}, {}],
  ])("%s", async (_, changes, sent) => {
    at.providers.local.answer = answered({ usage: { prompt_tokens: 5, completion_tokens: 900 } });
    const key = await at.gateway.key({ balance: whole });
    expect((await chat(at.gateway, key, changes)).status).toBe(200);
    const { json } = await at.providers.local.request(0);
    const bounds = Object.entries(json).filter(([name]) => name.startsWith("max_"));
    expect(Object.fromEntries(bounds)).toEqual(sent);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { hold: whole, charge: 900n * TOKEN, writeOff: 0n },
    ]);
  });

  test.each([{ max_tokens: 1 }, {}])("and is refused for less money: %j", async (changes) => {
    const balance = whole - 1n;
    const reply = await chat(at.gateway, await at.gateway.key({ balance }), changes);
    expectRefusal(reply, [402, "billing_error", "insufficient balance"], {
      code: "insufficient_balance",
      required_rub: formatRoubles(whole),
      available_rub: formatRoubles(balance),
    });
    expect(at.providers.local.requests).toHaveLength(0);
  });
});
