import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { beginChat, disconnectWays } from "../../support/gateway/steppedChat.ts";
import { until } from "../../support/until.ts";
import type { KeyOptions, TestKey } from "../../support/gateway/testApp.ts";

/** On each route. */
const operatorPrices = {
  rub_cost_input_per_1m: 12_000,
  rub_cost_output_per_1m: 96_000,
  rub_cost_cached_input_per_1m: 1200,
  rub_cost_cache_write_per_1m: 15_000,
};
const opened = openBefore(["local"], ({ local }) => ({
  providers: { local, again: local, mute: { base_url: local, first_byte_timeout: "500ms" } },
  models: [
    { id: "small", routes: [{ provider: "local", ...operatorPrices }] },
    { id: "unknown", routes: [{ provider: "mute", model: "never-asked", ...operatorPrices }] },
    {
      id: "paired",
      routes: [
        { provider: "local", ...operatorPrices },
        { provider: "again", ...operatorPrices },
      ],
    },
  ],
  sections: { billing: { disconnect_grace: "120ms" } },
}));
const at = {
  get gateway() {
    return opened.gateway;
  },
  provider: opened.providers.local,
};
const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
/** "hello" has 5 bytes: an estimate of 2 tokens. */
const promptOnly = costOf({ prompt: 2, completion: 0 });

/** Sends a chat request. The test controls the provider's side. */
const begin = (changes: object, options?: KeyOptions) => beginChat(at, changes, options);

/** The record of the only request of this key. A charged request has a provider. */
async function expectRecord(key: TestKey, charge: bigint, changes: object): Promise<void> {
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled", charge, writeOff: 0n, ...changes });
  if (charge > 0n) {
    const { promptTokens = 0, completionTokens = 0, provider, operatorCost } = record ?? {};
    const { cachedTokens = 0, cacheWriteTokens = 0 } = record ?? {};
    const plain = promptTokens - cachedTokens - cacheWriteTokens;
    const input = plain * 12_000 + cachedTokens * 1200 + cacheWriteTokens * 15_000;
    expect(provider).toBeOneOf(["local", "again"]);
    expect(operatorCost).toBe(BigInt(input + completionTokens * 96_000));
  }
  expect(await at.gateway.balance(key)).toBe(100_000_000_000n - charge);
}

describe.each(disconnectWays)("a JSON client that disconnects (%s)", (way) => {
  test("before the head: the answer is read completely and charged exactly", async () => {
    const { key, disconnect, provide } = await begin({});
    await disconnect(way);
    await Bun.sleep(200);
    const text = JSON.stringify({
      choices: [{ index: 0, finish_reason: "stop", message: { content: "x" } }],
      usage: {
        prompt_tokens: 20,
        completion_tokens: 7,
        prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
      },
    });
    await provide(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n`);
    await Bun.sleep(200);
    await provide(text);
    await expectRecord(key, exact, { estimated: false, promptTokens: 20, provider: "local" });
  });

  test("pays nothing when its provider then fails", async () => {
    const { key, disconnect, provide } = await begin({});
    await disconnect(way);
    await provide("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
    await expectRecord(key, 0n, { promptTokens: 0 });
  });
});

describe("JSON clients that disconnect", () => {
  test("beyond 1,024 at once: the provider is aborted, and the prompt charged", async () => {
    const { leftAnswers } = at.gateway.app.gateway;
    const { key, disconnect, givenUp } = await begin({});
    leftAnswers.count = 1024;
    await disconnect();
    await givenUp;
    expect(leftAnswers.count).toBe(1024);
    leftAnswers.count = 0;
    await expectRecord(key, promptOnly, { estimated: true, promptTokens: 2, completionTokens: 0 });
  });
});

describe.each(disconnectWays)("a stream client that disconnects (%s)", (way) => {
  const streaming = { stream: true };
  test("from a provider that never answers: nothing is charged", async () => {
    const { key, disconnect, givenUp } = await begin({ ...streaming, model: "unknown" });
    await disconnect(way);
    await givenUp;
    await expectRecord(key, 0n, { promptTokens: 0, completionTokens: 0 });
  });

  test("between head and content: the prompt is charged", async () => {
    const { key, disconnect, provide, givenUp } = await begin(streaming);
    await provide(streamHead, piece(roleEvent));
    await disconnect(way);
    await givenUp;
    await expectRecord(key, promptOnly, { estimated: true });
  });

  test("before content, and the provider fails within the grace: nothing is charged", async () => {
    const { key, disconnect, provide } = await begin(streaming);
    await disconnect(way);
    await provide("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
    await expectRecord(key, 0n, { promptTokens: 0 });
  });

  test("during the content, and the provider ends within the grace: charged exactly", async () => {
    const { key, disconnect, client, provide } = await begin(streaming);
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    await disconnect(way);
    await provide(...[thereEvent, stopEvent, usageEvent, doneEvent].map(piece), streamEnd);
    await expectRecord(key, exact, { estimated: false });
  });

  test("during the content, and the provider continues: aborted after the grace, and charged by the estimate", async () => {
    const { key, disconnect, client, provide, givenUp } = await begin(streaming);
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    await disconnect(way);
    await provide(piece(thereEvent));
    await givenUp;
    // "Hello" and " there" have 11 bytes: 3 tokens.
    const charge = costOf({ prompt: 2, completion: 3 });
    await expectRecord(key, charge, { estimated: true, promptTokens: 2, completionTokens: 3 });
    // Not an error for the operator.
    const line = () => at.gateway.log.find((line) => line["key"] === key.id);
    await until("it is logged", () => line() !== undefined);
    expect(line()).toMatchObject({ outcome: "cancelled", level: "info" });
  });

  test("during the content, and the provider reports usage but does not end: charged by that usage", async () => {
    const { key, disconnect, client, provide, givenUp } = await begin(streaming);
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    await disconnect(way);
    await provide(piece(usageEvent));
    await givenUp;
    await expectRecord(key, exact, { estimated: false });
  });

  test("during the content, and the provider fails within the grace: charged by the estimate", async () => {
    const { key, client, disconnect, provide } = await begin(streaming);
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    await disconnect(way);
    await provide("nonsense\r\n");
    const charge = costOf({ prompt: 2, completion: 2 });
    await expectRecord(key, charge, { estimated: true, promptTokens: 2, completionTokens: 2 });
  });

  test("after the finish reason: the stream is finished and charged exactly", async () => {
    const { key, disconnect, client, provide } = await begin(streaming);
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    await provide(piece(stopEvent));
    await disconnect(way);
    await provide(piece(usageEvent), piece(doneEvent), streamEnd);
    await expectRecord(key, exact, { estimated: false });
  });
});

describe("a client that disconnected", () => {
  test("has its concurrency slot back", async () => {
    const begun = await begin({ stream: true }, { concurrentRequests: 1 });
    const { key, disconnect, givenUp, provide } = begun;
    await provide(streamHead);
    const busy = await chat(at.gateway, key);
    await disconnect("fin");
    await givenUp;
    await at.gateway.expectAuditPasses();
    at.provider.answer = answered();
    expect([busy.status, (await chat(at.gateway, key)).status]).toEqual([429, 200]);
    expect(at.gateway.app.gateway.leftAnswers.count).toBe(0);
  });

  test("has no failover for a stream", async () => {
    const { key, disconnect, provide } = await begin({ model: "paired", stream: true });
    await disconnect("fin");
    await provide("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n");
    await expectRecord(key, 0n, { attemptCount: 1 });
    expect(at.provider.requests).toHaveLength(1);
  });

  test("has a failover for a JSON answer, which is read completely", async () => {
    const { key, disconnect, provide } = await begin({ model: "paired" });
    await disconnect("reset");
    at.provider.answer = answered();
    await provide("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n");
    await expectRecord(key, exact, { attemptCount: 2 });
  });
});
