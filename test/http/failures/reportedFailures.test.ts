import { describe, expect, test } from "bun:test";
import { chat, expectRefusal, type Reply } from "../../support/gateway/chatCalls.ts";
import { isAnyOpen } from "../../support/gateway/breakers.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  ended,
  responds,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { responseEvent } from "../../support/provider/upstreamText.ts";
import { sample } from "../../support/sample.ts";

/** Failures that a provider of the responses interface reports with status 200. */
const at = openBefore(["one", "two"], ({ one, two }) => {
  const over = (provider: string) => ({ provider, api: "responses" });
  return {
    providers: { one: { base_url: one, api_key: upstreamKey }, two },
    models: [
      { id: "small", routes: [over("one")] },
      { id: "both", routes: [{ ...over("one"), model: "both" }, over("two")] },
    ],
  };
});
const { one, two } = at.providers;
/** This many failures in a row open the breaker of a route. */
const FAILURES_MAX = 5;

type AdmissionRequest = (model: string) => Promise<Reply>;
const ask = {
  chat: async (model) => chat(at.gateway, await at.gateway.key(), { model }),
  chatStream: async (model) => chat(at.gateway, await at.gateway.key(), { model, stream: true }),
  responses: async (model) => respond(at.gateway, await at.gateway.key(), { model }),
  responsesStream: async (model) =>
    respond(at.gateway, await at.gateway.key(), { model, stream: true }),
} satisfies Record<string, AdmissionRequest>;

const failed = (error: object) => ({ output: [], usage: null, error });
const inJson = (error: object) => json(ended("resp_1", { ...failed(error), status: "failed" }));
const atItsEnd = (error: object) => stream(created(), terminal("failed", "resp_1", failed(error)));
const inAnEvent = (error: object) => stream(created(), responseEvent("error", { error }));
/** The documented form: the type is the event's own. */
const inAPlainEvent = (error: object) =>
  stream(created(), responseEvent("error", { ...error, type: "error" }));
const inATypelessEvent = (error: object) =>
  stream(created(), `data: ${JSON.stringify({ error })}\n\n`);
const inPlaceOfAnAnswer = (error: object) => json({ error });

/** The forms in which a provider reports a failure before any content. */
const ways: readonly (readonly [string, AdmissionRequest, (error: object) => ProviderAnswer])[] = [
  ["a chat in JSON", ask.chat, inJson],
  ["a chat whose stream ends as failed", ask.chatStream, atItsEnd],
  ["a chat whose stream has an error", ask.chatStream, inAnEvent],
  ["a chat whose stream has a plain error", ask.chatStream, inAPlainEvent],
  ["a stream of the responses interface", ask.responsesStream, inAnEvent],
  ["a responses stream whose event has no type", ask.responsesStream, inATypelessEvent],
  ["JSON instead of a responses stream", ask.responsesStream, inPlaceOfAnAnswer],
  ["a response in JSON", ask.responses, inPlaceOfAnAnswer],
];

/** Sends as many requests as open a breaker, and then tests whether it is open. */
async function opensBreaker(make: AdmissionRequest, answer: ProviderAnswer): Promise<boolean> {
  one.answer = answer;
  for (let time = 0; time < FAILURES_MAX; time += 1) await make("small");
  return isAnyOpen(at.gateway);
}

describe.each(sample(ways, 4, ([name]) => name))("a failure in %s", (_, make, report) => {
  test("of the caller's picture is a 400, without a failover and without an effect on the route's health", async () => {
    const message = `Failed to download image with ${upstreamKey}.`;
    const answer = report({ code: "failed_to_download_image", message, param: "input" });
    one.answer = answer;
    const reply = await make("both");
    const words = "Failed to download image with ***.";
    const extra = { code: "failed_to_download_image", param: "input" };
    expectRefusal(reply, [400, "invalid_request_error", words], extra);
    expect(two.requests).toHaveLength(0);
    const attempts = await at.gateway.store.requests.attempts(reply.id);
    expect(attempts).toMatchObject([{ outcome: "reported failure" }]);
    expect(await opensBreaker(make, answer)).toBe(false);
  });

  test.each([
    { type: "external_connector_error", code: "http_error" },
    { type: "external_connector_error", code: "http_error", message: "Insufficient Balance" },
  ])("of the caller's own server goes to the next route, and does not count: %j", async (error) => {
    const answer = report(error);
    one.answer = answer;
    two.answer = responds();
    expect((await make("both")).status).toBe(200);
    expect([one.requests.length, two.requests.length]).toEqual([1, 1]);
    expect(await opensBreaker(make, answer)).toBe(false);
  });

  test.each([
    { code: "server_error", message: "secret" },
    { type: "tokens", code: "rate_limit_exceeded" },
  ])(
    "of the provider itself, or of a limit without a time, counts for the breaker: %j",
    async (error) => {
      expect(await opensBreaker(make, report(error))).toBe(true);
    },
  );

  test.each([
    { type: "insufficient_quota", code: "insufficient_quota" },
    { type: "invalid_request_error", code: null, message: "Insufficient Balance" },
    { message: "Insufficient credits." },
  ])("of an account without money starts a cooldown of the provider at once: %j", async (error) => {
    one.answer = report(error);
    const reply = await make("small");
    expect(reply).toMatchObject({ status: 502, body: { error: { type: "provider_error" } } });
    expect(reply.headers.get("retry-after")).toBe("300");
  });
});

test("a response that failed for an unknown reason does not count", async () => {
  expect(await opensBreaker(ask.chat, inJson({ code: "some_code" }))).toBe(false);
  expect(await opensBreaker(ask.chatStream, atItsEnd({}))).toBe(false);
});

test("the type alone can show that the caller's server failed", async () => {
  const answer = inAnEvent({ type: "external_connector_error", code: null });
  expect(await opensBreaker(ask.chatStream, answer)).toBe(false);
});

test("an unknown error is the provider's", async () => {
  expect(await opensBreaker(ask.chatStream, inAnEvent({ code: "some_code" }))).toBe(true);
});

test.each([
  ["a chat", chat],
  ["a stream of the responses interface", respond],
])("an error event about the request after content, in %s, is charged", async (_, send) => {
  for (const error of [{ code: "invalid_prompt" }, { type: "invalid_request_error" }]) {
    one.answer = stream(created(), delta, responseEvent("error", { error }));
    const key = await at.gateway.key();
    expect((await send(at.gateway, key, { stream: true })).text).toContain("provider_error");
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "cancelled", estimated: true });
    expect(record?.charge).toBeGreaterThan(0n);
  }
});

test.each([
  ["a chat", chat],
  ["a stream of the responses interface", respond],
])("a response.failed about the request after content, in %s, is not charged", async (_, send) => {
  for (const error of [{ code: "invalid_prompt" }, { type: "invalid_request_error" }]) {
    one.answer = stream(created(), delta, terminal("failed", "resp_1", failed(error)));
    const key = await at.gateway.key();
    await send(at.gateway, key, { stream: true });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  }
});

test.each([
  ["a chat", ask.chatStream],
  ["a stream of the responses interface", ask.responsesStream],
])(
  "a failure of the caller's server after content, in %s, does not count, and is not charged",
  async (_, make) => {
    const error = { type: "external_connector_error", code: "http_error" };
    const answer = stream(created(), delta, responseEvent("error", { error }));
    one.answer = answer;
    const key = await at.gateway.key();
    const send = make === ask.chatStream ? chat : respond;
    const reply = await send(at.gateway, key, { stream: true });
    expect(reply.text).toContain("provider_error");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    expect(await opensBreaker(make, answer)).toBe(false);
  },
);
