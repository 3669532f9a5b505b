import { describe, expect, test } from "bun:test";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { collidingNames } from "../../support/provider/collidingNames.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { geminiEvent, saying, usageMetadata } from "../../support/provider/geminiAnswers.ts";
import { created, delta, terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/**
 * A caller can make its answer too costly to parse. The content before that is not free, and other accounts do not suffer.
 */
const at = openBefore(["one", "two", "three"], ({ one, two, three }) => ({
  providers: {
    one: { base_url: one },
    two: { base_url: two },
    three: { kind: "gemini", base_url: three, api_key: upstreamKey },
  },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "both", routes: [{ provider: "one", model: "both" }, { provider: "two" }] },
    { id: "over", routes: [{ provider: "one", model: "over", api: "responses" }] },
    { id: "google", routes: [{ provider: "three", responses: false }] },
  ],
}));
const { one, two, three } = at.providers;
const started = 100_000_000_000n;
const costly = collidingNames(500);
const streaming = { stream: true };

describe("a stream that its caller made too costly to parse after content", () => {
  /** "hello" in the prompt, and "Hello" or "Hello there" in the completion. */
  const chatCost = costOf({ prompt: 2, completion: 2 });
  const responsesCost = costOf({ prompt: 2, completion: 3 });

  test.each<[string, string, ProviderAnswer, bigint]>([
    [
      "by colliding names",
      "small",
      stream(helloEvent, chatEvent({ content: "x", names: costly })),
      chatCost,
    ],
    [
      "by colliding names, at the end of a response",
      "over",
      stream(created(), delta, terminal("completed", "resp_1", { names: costly })),
      responsesCost,
    ],
    [
      "by colliding names, in calls of Gemini",
      "google",
      stream(
        geminiEvent(saying([{ text: "Hello there" }], undefined, { usageMetadata })),
        geminiEvent(saying([{ functionCall: { name: "f", args: { costly } } }], "STOP")),
      ),
      costOf({ prompt: 100, cached: 40, completion: 50 }),
    ],
  ])(
    "in a chat, %s: ends with an error, and is charged like a disconnect",
    async (_, model, answer, charge) => {
      one.answer = answer;
      three.answer = answer;
      const key = at.gateway.key();
      const reply = await chat(at.gateway, key, { ...streaming, model });
      expect(reply.text).toContain("Hello");
      expect(chunksOf(reply).at(-1)).toMatchObject({
        choices: [{ delta: {}, finish_reason: "error" }],
        error: { type: "provider_error" },
      });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "cancelled", estimated: true, charge },
      ]);
      expect(at.gateway.balance(key)).toBe(started - charge);
      expect(at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { outcome: "isolated failure" },
      ]);
      expect(at.gateway.log.findLast(({ msg }) => msg === "request")).toMatchObject({
        level: "error",
      });
    },
  );

  test("of the responses interface: ends with an error, and is charged like a disconnect", async () => {
    one.answer = stream(created(), delta, terminal("completed", "resp_1", { names: costly }));
    const key = at.gateway.key();
    const reply = await respond(at.gateway, key, streaming);
    expect(reply.text).toStartWith(created() + delta);
    expect(reply.text).toContain('event: error\ndata: {"type":"error","code":"provider_error"');
    expect(reply.text).not.toContain("response.completed");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, charge: responsesCost },
    ]);
    expect(at.gateway.balance(key)).toBe(started - responsesCost);
  });
});

test("a stream that is too costly to parse before content is charged like a disconnect, without a failover", async () => {
  one.answer = stream(chatEvent({ content: "x", names: costly }));
  two.answer = stream(helloEvent, chatEvent({}, "stop"));
  const key = at.gateway.key();
  expectRefusal(await chat(at.gateway, key, { ...streaming, model: "both" }), noProvider);
  expect([one.requests.length, two.requests.length]).toEqual([1, 0]);
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "cancelled", estimated: true, provider: "one", completionTokens: 0 },
  ]);
  expect((await at.gateway.records(key, 1))[0]?.charge).toBeGreaterThan(0n);
});
