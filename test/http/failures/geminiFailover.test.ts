import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import {
  chat,
  chunksOf,
  expectRefusal,
  noProvider,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  billed,
  geminiEvent,
  geminiEvents,
  geminiRefusal,
  saying,
  usageMetadata,
  usualGemini,
} from "../../support/provider/geminiAnswers.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const toGoogle = { provider: "google", model: "gemini-2.5-flash", responses: false };
const at = openBefore(["google", "other"], ({ google, other }) => ({
  providers: {
    google: { kind: "gemini", base_url: google, api_key: upstreamKey },
    other: { base_url: other },
  },
  models: [
    { id: "small", routes: [toGoogle, { provider: "other" }] },
    { id: "alone", routes: [toGoogle] },
  ],
}));
const { google, other } = at.providers;

/** Sends a request after all earlier cooldowns have ended. */
async function ask(changes: object = {}): Promise<Reply & { key: TestKey }> {
  at.gateway.clock.advance(600_000);
  other.answer = usual;
  const key = await at.gateway.key();
  return { ...(await chat(at.gateway, key, changes)), key };
}

function called(): readonly number[] {
  return [google.requests.length, other.requests.length];
}

const invalidKey = geminiRefusal(400, "INVALID_ARGUMENT", "API key not valid.", [
  { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" },
]);
const overloaded = { error: { code: 503, message: "secret words", status: "UNAVAILABLE" } };
const malformed = { candidates: [{ finishReason: "MALFORMED_FUNCTION_CALL" }] };

describe("the next route answers when the Gemini API", () => {
  test.each<[string, ProviderAnswer, ProviderAnswer]>([
    ["is overloaded", json(overloaded, { status: 503 }), json([overloaded], { status: 503 })],
    ["answers with an error", json(overloaded), stream(geminiEvent(overloaded))],
    ["answers with a list", json([saying([], "STOP")]), stream("data: [{}]\n\n")],
    ["refuses the key", invalidKey, invalidKey],
    ["has no such model", geminiRefusal(404, "NOT_FOUND"), geminiRefusal(404, "NOT_FOUND")],
    ["has no content", json({}), stream(geminiEvent({}))],
    ["makes a malformed function call", json(malformed), stream(geminiEvent(malformed))],
    ["answers with a page", json("<html>"), stream("data: <html>\n\n")],
  ])("%s", async (_, whole, streamed) => {
    for (const isStream of [false, true]) {
      google.answer = isStream ? streamed : whole;
      const { status, key } = await ask({ stream: isStream });
      expect(status).toBe(200);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        {
          status: "done",
          provider: "other",
          attemptCount: 2,
          charge: costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 }),
        },
      ]);
    }
    expect(called()).toEqual([2, 2]);
  });

  test("does not support the request: it is not asked", async () => {
    google.answer = usualGemini;
    const { status } = await ask({ tools: [{ type: "custom", custom: { name: "x" } }] });
    expect([status, ...called()]).toEqual([200, 0, 1]);
  });
});

test.each([false, true])(
  "a model that fails because of one request has no cooldown (stream: %j)",
  async (isStream) => {
    google.answer = isStream ? stream(geminiEvent(malformed)) : json(malformed);
    const { key } = await ask({ model: "alone", stream: isStream });
    const again = () => chat(at.gateway, key, { model: "alone", stream: isStream });
    for (let time = 1; time < 6; time += 1) expectRefusal(await again(), noProvider);
    expect(called()).toEqual([6, 0]);
    google.answer = usualGemini;
    expect((await again()).status).toBe(200);
  },
);

describe.each([
  "MALFORMED_FUNCTION_CALL",
  "MALFORMED_RESPONSE",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MISSING_THOUGHT_SIGNATURE",
])("a model that fails by %s after text,", (reason) => {
  const cost = costOf(billed);
  const said = [{ text: "Hello there" }];

  test("in JSON: the next route answers, because nothing was sent", async () => {
    google.answer = json(saying(said, reason, { usageMetadata }));
    const { key } = await ask();
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", provider: "other" }]);
  });

  test("in a stream: the answer ends, and is charged exactly", async () => {
    google.answer = stream(
      geminiEvent(saying(said)),
      geminiEvent(saying([], reason, { usageMetadata })),
    );
    const reply = await ask({ stream: true });
    expect(reply.text).toContain("Hello there");
    expect(reply.text).toContain('"finish_reason":"length"');
    expect(await at.gateway.records(reply.key, 1)).toMatchObject([
      { status: "done", provider: "google", estimated: false, charge: cost },
    ]);
    expect(called()).toEqual([1, 0]);
  });
});

test("a request that the only route, Gemini, does not support is a 400", async () => {
  const reply = await ask({ model: "alone", cachedContent: "cachedContents/1" });
  expectRefusal(reply, [400, "invalid_request_error", "cachedContent is not supported"]);
  expect(called()).toEqual([0, 0]);
});

test("a request that Gemini refuses is a 400 with its message, without the key", async () => {
  google.answer = geminiRefusal(400, "INVALID_ARGUMENT", `Invalid value, said ${upstreamKey}.`);
  expectRefusal(await ask(), [400, "invalid_request_error", "Invalid value, said ***."], {
    code: "400",
  });
  expect(called()).toEqual([1, 0]);
});

test("a key that is refused with a 400 starts a cooldown of minutes, and is logged as an error", async () => {
  google.answer = invalidKey;
  const { key } = await ask();
  at.gateway.clock.advance(299_000);
  await chat(at.gateway, key);
  expect(called()).toEqual([1, 2]);
  at.gateway.clock.advance(2000);
  await chat(at.gateway, key);
  expect(called()).toEqual([2, 3]);
  expect(at.gateway.log.findLast(({ level }) => level === "error")).toMatchObject({
    provider: "google",
    status: 400,
  });
});

test("a rate limit lasts as long as its details state", async () => {
  google.answer = geminiRefusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", [
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.07s" },
  ]);
  const reply = await ask({ model: "alone" });
  expect(reply.headers.get("retry-after")).toBe("35");
  reply.headers.delete("retry-after");
  expectRefusal(reply, noProvider);
  at.gateway.clock.advance(34_000);
  expect((await chat(at.gateway, reply.key, { model: "alone" })).status).toBe(502);
  expect(called()).toEqual([1, 0]);
  at.gateway.clock.advance(1000);
  google.answer = usualGemini;
  expect((await chat(at.gateway, reply.key, { model: "alone" })).status).toBe(200);
});

test("an error after content ends the stream, which is not charged, without a failover", async () => {
  google.answer = stream(...geminiEvents.slice(0, 1), geminiEvent(overloaded));
  const reply = await ask({ stream: true });
  expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
  expect(reply.text).not.toContain("secret words");
  expect(await at.gateway.records(reply.key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  expect(called()).toEqual([1, 0]);
});
