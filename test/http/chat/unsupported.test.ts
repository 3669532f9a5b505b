import { describe, expect, test } from "bun:test";
import { chat, expectRefusal, type ExpectedError } from "../../support/gateway/chatCalls.ts";
import { usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const claude = { provider: "claude", responses: false };
const at = openBefore(["claude", "flat", "other"], ({ claude: claudeUrl, flat, other }) => ({
  providers: {
    claude: { base_url: claudeUrl, kind: "anthropic", api_key: "sk-ant-0123456789abcdef" },
    flat: { base_url: flat },
    other: { base_url: other },
  },
  models: [
    { id: "claude", routes: [claude] },
    { id: "both", routes: [claude, { provider: "flat", api: "responses" }] },
    { id: "saved", routes: [claude, { provider: "other" }] },
  ],
  sections: { billing: { hold_wait: "0s" } },
}));

const twice = { n: 2 };
const unfit: ExpectedError = [
  400,
  "invalid_request_error",
  "n is not supported by this model's provider",
];

/** Nothing was sent, and no record was written. */
async function expectUnasked(key: TestKey): Promise<void> {
  expect(at.providers.claude.requests).toEqual([]);
  expect(await at.gateway.records(key, 0)).toEqual([]);
}

describe("a chat that no route of its model can express is a 400", () => {
  test.each(["claude", "both"])("and leaves no record (%s)", async (model) => {
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { model, ...twice }), unfit);
    await expectUnasked(key);
  });

  test("before the balance is checked", async () => {
    const key = await at.gateway.key({ balance: 10_000_000n });
    expectRefusal(await chat(at.gateway, key, { model: "claude", ...twice }), unfit);
  });

  test("before the token rate, and takes no tokens", async () => {
    const key = await at.gateway.key({ tokensPerMinute: 1 });
    expectRefusal(await chat(at.gateway, key, { model: "claude", ...twice }), unfit);
    at.providers.claude.answer = usualMessage;
    expect((await chat(at.gateway, key, { model: "claude" })).status).toBe(200);
    expectRefusal(await chat(at.gateway, key, { model: "claude", ...twice }), unfit);
  });

  test("while its route has a cooldown", async () => {
    at.providers.claude.answer = refusal(401);
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { model: "claude" })).status).toBe(502);
    expectRefusal(await chat(at.gateway, key, { model: "claude", ...twice }), unfit);
  });
});

describe("a chat that one route of its model can express", () => {
  test("is a 502 while that route has a cooldown", async () => {
    at.providers.other.answer = refusal(401);
    const ask = { model: "saved", ...twice };
    expect((await chat(at.gateway, await at.gateway.key(), ask)).status).toBe(502);
    const { status, headers } = await chat(at.gateway, await at.gateway.key(), ask);
    expect(status).toBe(502);
    // The other route is available, but it does not support the request.
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(250);
  });

  test("is answered by that route", async () => {
    at.providers.other.answer = usual;
    const ask = { model: "saved", ...twice };
    expect((await chat(at.gateway, await at.gateway.key(), ask)).status).toBe(200);
  });
});

describe("the bound of a supported chat", () => {
  test("is the one that the balance can pay", async () => {
    at.providers.claude.answer = usualMessage;
    const key = await at.gateway.key({ balance: 100_000_000n });
    expect((await chat(at.gateway, key, { model: "claude" })).status).toBe(200);
    const sent = at.providers.claude.requests[0]?.json["max_tokens"];
    expect(sent).toBeGreaterThanOrEqual(16);
    expect(sent).toBeLessThan(1000);
  });
});
