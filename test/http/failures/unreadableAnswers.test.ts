import { describe, expect, test } from "bun:test";
import { message, messageUsage } from "../../support/provider/anthropicAnswers.ts";
import { choice, completion } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { collidingNames } from "../../support/provider/collidingNames.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { billed, saying, usageMetadata } from "../../support/provider/geminiAnswers.ts";
import { ended } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { text } from "../../support/provider/scriptedProvider.ts";

/**
 * A caller can make a JSON answer unparsable, for example with a deeply nested tool input. There is no failover, and the
 * answer is charged, as it is in a stream.
 */
const outputTokensMax = 1000;
const at = openBefore(["plain", "over", "claude", "google", "two"], (urls) => ({
  providers: {
    plain: urls.plain,
    over: urls.over,
    claude: { kind: "anthropic", base_url: urls.claude, api_key: upstreamKey },
    google: { kind: "gemini", base_url: urls.google, api_key: upstreamKey },
    two: urls.two,
  },
  models: [
    { id: "small", routes: [{ provider: "plain" }, { provider: "two" }] },
    { id: "over", routes: [{ provider: "over", api: "responses" }, { provider: "two" }] },
    ...["claude", "google"].map((provider) => ({
      id: provider,
      routes: [{ provider, responses: false }, { provider: "two" }],
      settings: { max_output_tokens: outputTokensMax },
    })),
  ],
}));
const started = 100_000_000_000n;
const usual = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** A placeholder for an input that can be parsed, but is nested too deep to be serialized. */
const DEEP = "nested too deep";
const deepJson = "[".repeat(1001) + "]".repeat(1001);
const textOf = (answer: unknown) => text(JSON.stringify(answer).replaceAll(`"${DEEP}"`, deepJson));
const costly = collidingNames(500);

const claudeCalls = (input: object, changes: object = {}) =>
  message({ content: [{ type: "tool_use", id: "t1", name: "f", input }], ...changes });
const googleCalls = (args: object, more: object = { usageMetadata }) =>
  saying([{ functionCall: { name: "f", args } }], "STOP", more);

type Name = keyof typeof at.providers;
const answers: readonly (readonly [string, Name, unknown, bigint])[] = [
  ["by colliding names", "plain", completion({ names: costly }), usual],
  ["by names before its usage", "plain", { names: costly, ...completion() }, usual],
  ["by colliding names in a response", "over", ended("resp_1", { names: costly }), usual],
  ["by the depth of a call", "claude", claudeCalls({ a: DEEP }), usual],
  ["by the names of a call", "claude", claudeCalls({ costly }), usual],
  ["by the depth of a call", "google", googleCalls({ a: DEEP }), costOf(billed)],
  ["by the names of a call", "google", googleCalls({ costly }), costOf(billed)],
  [
    "by a call with a field named usage",
    "claude",
    claudeCalls({ usage: { ...messageUsage, output_tokens: 0 }, a: [DEEP, '{"usage":{}}'] }),
    usual,
  ],
];

describe("a JSON answer that cannot be parsed", () => {
  test.each(answers)(
    "%s, of %s: 502, charged by its usage",
    async (_, provider, answer, charge) => {
      at.providers[provider].answer = textOf(answer);
      const key = await at.gateway.key();
      const model = provider === "plain" ? "small" : provider;
      const reply = await chat(at.gateway, key, { model });
      expectRefusal(reply, noProvider);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "cancelled", estimated: false, charge, provider, attemptCount: 1 },
      ]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { outcome: "isolated failure" },
      ]);
      expect(await at.gateway.balance(key)).toBe(started - charge);
      expect(at.providers.two.requests).toHaveLength(0);
    },
  );

  test("of the responses interface: 502, charged by its usage", async () => {
    at.providers.plain.answer = textOf(ended("resp_1", { names: costly }));
    const key = await at.gateway.key();
    expectRefusal(await respond(at.gateway, key), noProvider);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: false, charge: usual, attemptCount: 1 },
    ]);
  });

  const charactersMax = 4 * outputTokensMax;
  test.each<[string, Name, unknown]>([
    ["none", "plain", completion({ names: costly, usage: undefined })],
    ["a negative one", "plain", completion({ names: costly, usage: { prompt_tokens: -1 } })],
    ["none", "claude", claudeCalls({ a: DEEP }, { usage: null })],
    [
      "an impossible usage",
      "claude",
      claudeCalls({ a: DEEP }, { usage: { input_tokens: 1e9, output_tokens: 1 } }),
    ],
    ["none", "google", googleCalls({ a: DEEP }, {})],
    [
      "a usage of the prompt only",
      "google",
      googleCalls({ a: DEEP }, { usageMetadata: { promptTokenCount: 9, totalTokenCount: 9 } }),
    ],
    [
      "a usage that is too costly itself",
      "plain",
      completion({ usage: { names: costly, prompt_tokens: 1 } }),
    ],
  ])(
    "and whose usage is %s, of %s, is charged by an estimate up to its hold",
    async (_, provider, answer) => {
      at.providers[provider].answer = textOf(answer);
      const key = await at.gateway.key();
      const model = provider === "plain" ? "small" : provider;
      expectRefusal(await chat(at.gateway, key, { model }), noProvider);
      const [record] = await at.gateway.records(key, 1);
      expect(record).toMatchObject({ status: "cancelled", estimated: true, promptTokens: 2 });
      expect(record?.completionTokens).toBeGreaterThan(0);
      expect(record?.completionTokens).toBeLessThanOrEqual(outputTokensMax);
    },
  );

  test("and is longer than its hold is charged up to the hold", async () => {
    const content = "a".repeat(2 * charactersMax);
    const answer = completion({ choices: [choice({ content })], names: costly, usage: null });
    at.providers.plain.answer = textOf(answer);
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { max_tokens: 100 }), noProvider);
    const charge = costOf({ prompt: 2, completion: 100 });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "cancelled", charge }]);
  });
});
