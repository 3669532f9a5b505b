import { describe, expect, test } from "bun:test";
import { describedBy } from "../../support/gateway/apiDescription.ts";
import {
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import {
  chat,
  chunksOf,
  noProvider,
  expectRefusal,
  openCall,
  openChat,
} from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  held,
  json,
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const KEEP_ALIVE = ": keep-alive\n\n";
const at = openBefore(["one", "two", "three"], (urls) => ({
  sections: { server: { sse_keepalive: "60ms" }, billing: { disconnect_grace: "20ms" } },
  providers: urls,
  models: [
    { id: "small", routes: [{ provider: "one", responses: true }] },
    {
      id: "safe",
      routes: [
        { provider: "one", priority: 1 },
        { provider: "two", priority: 2 },
        { provider: "three", priority: 3 },
      ],
    },
  ],
}));
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

const tooLongInWords = { message: "too long", code: "context_length_exceeded", param: "messages" };
const tooLong = json({ error: tooLongInWords }, { status: 400 });

const good = raw(
  streamHead,
  ...[helloEvent, stopEvent, usageEvent, doneEvent].map(piece),
  streamEnd,
);

describe("a stream whose first content is late", () => {
  test("gets an early 200 with keep-alive comments, and then the usual events", async () => {
    const provider = held(good);
    at.providers.one.answer = provider.answer;
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    expect(client.status).toBe(200);
    await client.seen(KEEP_ALIVE.repeat(3));
    provider.go();
    await client.seen("[DONE]");
    const text = client.text.replaceAll(KEEP_ALIVE, "");
    expect(chunksOf({ text }).map(({ choices }) => choices)).toHaveLength(2);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
  });

  test("still fails over when its provider fails", async () => {
    const provider = held(refusal(500));
    at.providers.one.answer = provider.answer;
    at.providers.two.answer = usual;
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true, model: "safe" });
    await client.seen(KEEP_ALIVE);
    provider.go();
    await client.seen("[DONE]");
    expect(client.text).toContain("Hello");
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "done", provider: "two", attemptCount: 2 });
  });

  test("ends with the error chunk when no route is left, and is not charged", async () => {
    const provider = held(refusal(500));
    at.providers.one.answer = provider.answer;
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen(KEEP_ALIVE);
    provider.go();
    await client.seen("[DONE]");
    const [last, ...others] = chunksOf({ text: client.text.replaceAll(KEEP_ALIVE, "") });
    expect(others).toEqual([]);
    expect(last).toMatchObject({
      model: "small",
      choices: [{ delta: {}, finish_reason: "error" }],
      error: { type: "provider_error", message: "all providers unavailable" },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    await until("the client has received the end", () => client.isOver);
    // Its attempts are logged like those of a plain 502.
    const line = at.gateway.log.at(-1);
    expect(line).toMatchObject({ status: 200, outcome: "failed", level: "info" });
    expect(line).not.toHaveProperty("error");
  });

  test("reports the caller's fault in the same way", async () => {
    const provider = held(tooLong);
    at.providers.one.answer = provider.answer;
    const client = await openChat(at.gateway, await at.gateway.key(), { stream: true });
    await client.seen(KEEP_ALIVE);
    provider.go();
    await client.seen("[DONE]");
    const text = client.text.replaceAll(KEEP_ALIVE, "");
    const chunks = chunksOf({ text });
    expect(chunks).toMatchObject([{ error: { type: "invalid_request_error", ...tooLongInWords } }]);
    await until("the request is over", () => at.gateway.app.requests.open === 0);
    expect(at.gateway.log.at(-1)).toMatchObject({ status: 200, outcome: "failed", level: "info" });
    const { complaints } = await describedBy(at.gateway);
    expect(complaints("ChatChunk", chunks[0], true)).toEqual([]);
  });

  test("ends with the error event of the responses interface", async () => {
    const provider = held(refusal(503));
    at.providers.one.answer = provider.answer;
    const key = await at.gateway.key();
    const body = { model: "small", input: "x", stream: true };
    const client = await openCall(at.gateway, key, { path: "/v1/responses", body });
    await client.seen(KEEP_ALIVE);
    provider.go();
    await until("the stream is over", () => client.isOver);
    const [name, data] = client.text.replaceAll(KEEP_ALIVE, "").trim().split("\ndata: ");
    expect(name).toBe("event: error");
    expect(JSON.parse(data ?? "")).toEqual({
      type: "error",
      code: "provider_error",
      message: "all providers unavailable",
      param: null,
      sequence_number: 0,
      error: {
        type: "provider_error",
        code: "provider_error",
        message: "all providers unavailable",
        param: null,
      },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("reports the caller's fault in a response with the provider's code and parameter", async () => {
    const provider = held(tooLong);
    at.providers.one.answer = provider.answer;
    const body = { model: "small", input: "x", stream: true };
    const client = await openCall(at.gateway, await at.gateway.key(), {
      path: "/v1/responses",
      body,
    });
    await client.seen(KEEP_ALIVE);
    provider.go();
    await until("the stream is over", () => client.isOver);
    const [, data] = client.text.replaceAll(KEEP_ALIVE, "").trim().split("\ndata: ");
    expect(JSON.parse(data ?? "")).toEqual({
      type: "error",
      sequence_number: 0,
      ...tooLongInWords,
      error: { type: "invalid_request_error", ...tooLongInWords },
    });
  });

  test("aborts its provider when its client disconnects, and releases its slot", async () => {
    at.providers.one.answer = () => undefined;
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen(KEEP_ALIVE);
    client.disconnect();
    await at.gateway.expectAuditPasses();
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "cancelled" }]);
    await until("the request is over", () => at.gateway.app.requests.open === 0);
    // It is not an error for the operator's log.
    expect(at.gateway.log.at(-1)).toMatchObject({ level: "info", outcome: "cancelled" });
    at.providers.one.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(200);
  });
});

test("a client that disconnects between two attempts pays for neither", async () => {
  const provider = held(refusal(404));
  at.providers.one.answer = provider.answer;
  at.providers.two.answer = refusal(404);
  const key = await at.gateway.key();
  const client = await openChat(at.gateway, key, { stream: true, model: "safe" });
  await client.seen(KEEP_ALIVE);
  provider.go();
  // A third attempt waits 50 ms at least, and the grace is over before.
  await at.providers.two.request(0);
  client.disconnect();
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "cancelled", attemptCount: 2, charge: 0n },
  ]);
  expect(at.providers.three.requests).toEqual([]);
  await until("the request is over", () => at.gateway.app.requests.open === 0);
  expect(at.gateway.log.at(-1)).toMatchObject({ level: "info", outcome: "cancelled" });
});

test("a stream that fails early is a plain 502", async () => {
  at.providers.one.answer = refusal(500);
  expectRefusal(await chat(at.gateway, await at.gateway.key(), { stream: true }), noProvider);
});

const silent = openOneModelBefore({ server: { sse_keepalive: "0s" } });

test("without keep-alive comments a failure is a plain 502, however late", async () => {
  silent.provider.answer = async (peer, request) => {
    await Bun.sleep(300);
    await refusal(500)(peer, request);
  };
  const { gateway } = silent;
  expectRefusal(await chat(gateway, await gateway.key(), { stream: true }), noProvider);
});
