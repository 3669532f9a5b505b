import { describe, expect, test } from "bun:test";
import { chat, expectRefusal, type Reply } from "../../support/gateway/chatCalls.ts";
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

/** What a provider of the responses interface reports in an answer whose status is 200. */
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
/** So many failures in a row put a route aside. */
const FAILURES_MAX = 5;

type AdmissionRequest = (model: string) => Promise<Reply>;
const ask = {
  chat: (model) => chat(at.gateway, at.gateway.key(), { model }),
  chatStream: (model) => chat(at.gateway, at.gateway.key(), { model, stream: true }),
  responses: (model) => respond(at.gateway, at.gateway.key(), { model }),
  responsesStream: (model) => respond(at.gateway, at.gateway.key(), { model, stream: true }),
} satisfies Record<string, AdmissionRequest>;

const failed = (error: object) => ({ output: [], usage: null, error });
const inJson = (error: object) => json(ended("resp_1", { ...failed(error), status: "failed" }));
const atItsEnd = (error: object) => stream(created(), terminal("failed", "resp_1", failed(error)));
const inAnEvent = (error: object) => stream(created(), responseEvent("error", { error }));
/** As it is documented: the type is the event's own. */
const inAPlainEvent = (error: object) =>
  stream(created(), responseEvent("error", { ...error, type: "error" }));
const inATypelessEvent = (error: object) =>
  stream(created(), `data: ${JSON.stringify({ error })}\n\n`);
const inPlaceOfAnAnswer = (error: object) => json({ error });

/** The ways in which a provider says that it failed, before any content. */
const ways: readonly (readonly [string, AdmissionRequest, (error: object) => ProviderAnswer])[] = [
  ["a chat in JSON", ask.chat, inJson],
  ["a chat whose stream ends as failed", ask.chatStream, atItsEnd],
  ["a chat whose stream has an error", ask.chatStream, inAnEvent],
  ["a chat whose stream has a plain error", ask.chatStream, inAPlainEvent],
  ["a stream of the responses interface", ask.responsesStream, inAnEvent],
  ["a stream of that whose event has no type", ask.responsesStream, inATypelessEvent],
  ["JSON in the place of such a stream", ask.responsesStream, inPlaceOfAnAnswer],
  ["an answer of that in JSON", ask.responses, inPlaceOfAnAnswer],
];

/** Asks so often that the route would be put aside if it counted, and then whether it is. */
async function isPutAside(make: AdmissionRequest, answer: ProviderAnswer): Promise<boolean> {
  one.answer = answer;
  for (let time = 0; time < FAILURES_MAX; time += 1) await make("small");
  one.answer = responds();
  return (await make("small")).status !== 200;
}

describe.each(ways)("what %s reports", (_, make, report) => {
  test("of its caller's picture is the caller's 400, of which no other route and nobody's health hears", async () => {
    const message = `Failed to download image with ${upstreamKey}.`;
    const answer = report({ code: "failed_to_download_image", message, param: "input" });
    one.answer = answer;
    const reply = await make("both");
    const words = "Failed to download image with ***.";
    const extra = { code: "failed_to_download_image", param: "input" };
    expectRefusal(reply, [400, "invalid_request_error", words], extra);
    expect(two.requests).toHaveLength(0);
    const attempts = at.gateway.store.requests.attempts(reply.id);
    expect(attempts).toMatchObject([{ outcome: "reported failure" }]);
    expect(await isPutAside(make, answer)).toBe(false);
  });

  test.each([
    { type: "external_connector_error", code: "http_error" },
    { type: "external_connector_error", code: "http_error", message: "Insufficient Balance" },
  ])(
    "of its caller's own server goes to the next route, and puts nothing aside: %j",
    async (error) => {
      const answer = report(error);
      one.answer = answer;
      two.answer = responds();
      expect((await make("both")).status).toBe(200);
      expect([one.requests.length, two.requests.length]).toEqual([1, 1]);
      expect(await isPutAside(make, answer)).toBe(false);
    },
  );

  test.each([
    { code: "server_error", message: "secret" },
    { type: "tokens", code: "rate_limit_exceeded" },
  ])(
    "of the provider itself, or of a limit without a time, opens the breaker: %j",
    async (error) => {
      expect(await isPutAside(make, report(error))).toBe(true);
    },
  );

  test.each([
    { type: "insufficient_quota", code: "insufficient_quota" },
    { type: "invalid_request_error", code: null, message: "Insufficient Balance" },
    { message: "Insufficient credits." },
  ])("of an account without money puts the provider aside at once: %j", async (error) => {
    one.answer = report(error);
    const reply = await make("small");
    expect(reply).toMatchObject({ status: 502, body: { error: { type: "provider_error" } } });
    expect(reply.headers.get("retry-after")).toBe("300");
  });
});

test("a response that failed for a reason that nobody knows puts nothing aside", async () => {
  expect(await isPutAside(ask.chat, inJson({ code: "some_code" }))).toBe(false);
  expect(await isPutAside(ask.chatStream, atItsEnd({}))).toBe(false);
});

test("whose fault it is may stand in the type alone", async () => {
  const answer = inAnEvent({ type: "external_connector_error", code: null });
  expect(await isPutAside(ask.chatStream, answer)).toBe(false);
});

test("an error that says nothing known is the provider's", async () => {
  expect(await isPutAside(ask.chatStream, inAnEvent({ code: "some_code" }))).toBe(true);
});

test.each([
  ["a chat", chat],
  ["a stream of the responses interface", respond],
])("what an event of %s reports of its request behind content is paid", async (_, send) => {
  for (const error of [{ code: "invalid_prompt" }, { type: "invalid_request_error" }]) {
    one.answer = stream(created(), delta, responseEvent("error", { error }));
    const key = at.gateway.key();
    expect((await send(at.gateway, key, { stream: true })).text).toContain("provider_error");
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "cancelled", estimated: true });
    expect(record?.charge).toBeGreaterThan(0n);
  }
});

test.each([
  ["a chat", chat],
  ["a stream of the responses interface", respond],
])("a response that failed by its request behind content is not paid, in %s", async (_, send) => {
  for (const error of [{ code: "invalid_prompt" }, { type: "invalid_request_error" }]) {
    one.answer = stream(created(), delta, terminal("failed", "resp_1", failed(error)));
    const key = at.gateway.key();
    await send(at.gateway, key, { stream: true });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  }
});

test.each([
  ["a chat", ask.chatStream],
  ["a stream of the responses interface", ask.responsesStream],
])(
  "what %s reports of its caller's server behind content puts nothing aside, and is not paid",
  async (_, make) => {
    const error = { type: "external_connector_error", code: "http_error" };
    const answer = stream(created(), delta, responseEvent("error", { error }));
    one.answer = answer;
    const key = at.gateway.key();
    const send = make === ask.chatStream ? chat : respond;
    const reply = await send(at.gateway, key, { stream: true });
    expect(reply.text).toContain("provider_error");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    expect(await isPutAside(make, answer)).toBe(false);
  },
);
