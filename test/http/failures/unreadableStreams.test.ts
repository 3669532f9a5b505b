import { describe, expect, test } from "bun:test";
import {
  chat,
  chunksOf,
  expectRefusal,
  noProvider,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { collidingNames } from "../../support/provider/collidingNames.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { geminiEvent, saying, usageMetadata } from "../../support/provider/geminiAnswers.ts";
import { created, delta, terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/**
 * A caller can make a stream unparsable. There is no failover, because it would repeat the whole work. The stream is charged
 * like a disconnect.
 */
const ids = ["one", "two", "three"] as const;
const at = openBefore(ids, (urls) => ({
  providers: {
    ...urls,
    ...Object.fromEntries(
      ids.map((id) => [
        `google_${id}`,
        { kind: "gemini", base_url: urls[id], api_key: upstreamKey },
      ]),
    ),
  },
  models: [
    { id: "small", routes: ids.map((provider) => ({ provider })) },
    { id: "over", routes: ids.map((provider) => ({ provider, model: "over", api: "responses" })) },
    { id: "google", routes: ids.map((id) => ({ provider: `google_${id}`, responses: false })) },
  ],
}));

const started = 100_000_000_000n;
const costly = collidingNames(500);
const deep = (event: string) =>
  event.replace('"nested too deep"', "[".repeat(1001) + "]".repeat(1001));
const chatOf = (model: string) => async () =>
  chat(at.gateway, await at.gateway.key(), { model, stream: true });
const responseStream = async () => respond(at.gateway, await at.gateway.key(), { stream: true });
const calling = (args: object) =>
  geminiEvent(saying([{ functionCall: { name: "f", args } }], "STOP"));

describe("a stream that cannot be parsed before its first content", () => {
  test.each<[string, () => Promise<Reply>, string]>([
    ["by names that collide", chatOf("small"), chatEvent({ content: "x", names: costly })],
    ["by the depth of a call of Gemini", chatOf("google"), deep(calling({ a: "nested too deep" }))],
    ["by colliding names in a call of Gemini", chatOf("google"), calling({ costly })],
    [
      "by colliding names at the end",
      chatOf("over"),
      terminal("completed", "resp_1", { names: costly }),
    ],
    [
      "by more choices than any answer has",
      chatOf("small"),
      chatEvent({}, null, {
        choices: Array.from({ length: 1025 }, () => ({ index: 0, delta: { content: "x" } })),
      }),
    ],
    ["in a response", responseStream, terminal("completed", "resp_1", { names: costly })],
  ])("%s: 502, charged like a disconnect, and only one route is asked", async (_, make, event) => {
    for (const id of ids) at.providers[id].answer = stream(event);
    const reply = await make();
    expectRefusal(reply, noProvider);
    expect(ids.reduce((sum, id) => sum + at.providers[id].requests.length, 0)).toBe(1);
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
      { outcome: "isolated failure", status: 200 },
    ]);
    const record = await at.gateway.store.requests.find(reply.id);
    expect(record).toMatchObject({ status: "cancelled", estimated: true });
    expect(record?.charge).toBeGreaterThan(0n);
  });
});

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
      for (const id of ids) at.providers[id].answer = answer;
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { model, stream: true });
      expect(reply.text).toContain("Hello");
      expect(chunksOf(reply).at(-1)).toMatchObject({
        choices: [{ delta: {}, finish_reason: "error" }],
        error: { type: "provider_error" },
      });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "cancelled", estimated: true, charge },
      ]);
      expect(await at.gateway.balance(key)).toBe(started - charge);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { outcome: "isolated failure" },
      ]);
      expect(at.gateway.log.findLast(({ msg }) => msg === "request")).toMatchObject({
        level: "error",
      });
    },
  );

  test("of the responses interface: ends with an error, and is charged like a disconnect", async () => {
    const answer = stream(created(), delta, terminal("completed", "resp_1", { names: costly }));
    for (const id of ids) at.providers[id].answer = answer;
    const key = await at.gateway.key();
    const reply = await respond(at.gateway, key, { stream: true });
    expect(reply.text).toStartWith(created() + delta);
    expect(reply.text).toContain('event: error\ndata: {"type":"error","code":"provider_error"');
    expect(reply.text).not.toContain("response.completed");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, charge: responsesCost },
    ]);
    expect(await at.gateway.balance(key)).toBe(started - responsesCost);
  });
});
