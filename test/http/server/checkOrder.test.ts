import { describe, expect, test } from "bun:test";
import {
  ask,
  badKey,
  call,
  chat,
  expectRefusal,
  openChat,
  tooOften,
  unknownModel,
  type ExpectedError,
} from "../../support/gateway/chatCalls.ts";
import { helloEvent, stopEvent, usual } from "../../support/provider/chatAnswers.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const at = openOneModelBefore();

const brokenBody = '{"model":';
const wrongField: ExpectedError = [
  400,
  "invalid_request_error",
  "temperature must be between 0 and 2",
];

/** Uses up the key's one request, or its tokens, of this minute. */
async function exhausted(key: TestKey): Promise<TestKey> {
  at.provider.answer = usual;
  expect((await chat(at.gateway, key)).status).toBe(200);
  at.provider.forget();
  return key;
}

describe("the first check that fails answers", () => {
  test.each([
    ["a wrong key", async (head: string) => head],
    [
      "a wrong x-api-key",
      async (head: string) => head.replace("Authorization: Bearer", "x-api-key:"),
    ],
    [
      "two different keys",
      async (head: string) =>
        head.replace(
          "Bearer no-key",
          `Bearer ${(await at.gateway.key()).key}\r\nx-api-key: no-key`,
        ),
    ],
  ])("401 of %s comes before the body is read, and before anything in it", async (_, change) => {
    const client = await connectRaw(at.gateway.port);
    const [head = ""] = chatBytes("no-key", "x".repeat(250_000)).split("\r\n\r\n");
    client.send(`${await change(head)}\r\n\r\n{`);
    const { status, body } = await client.response();
    expect([status, JSON.parse(body)]).toEqual([
      401,
      { error: { message: badKey[2], type: badKey[1] } },
    ]);
    client.reset();
  });

  test("401 comes before a body over the limit", async () => {
    const client = await connectRaw(at.gateway.port);
    const [head = ""] = chatBytes("no-key", "").split("\r\n\r\n");
    client.send(head.replace("Content-Length: 0", "Content-Length: 99000000000"));
    client.send("\r\n\r\n");
    expect((await client.response()).status).toBe(401);
    client.reset();
  });

  test("429 of the rate comes before 400, and its body is not read", async () => {
    const { key } = await exhausted(await at.gateway.key({ requestsPerMinute: 1 }));
    expectRefusal(await call(at.gateway, { key }, { body: brokenBody }), tooOften);
    const client = await connectRaw(at.gateway.port);
    const [head = ""] = chatBytes(key, "x".repeat(250_000)).split("\r\n\r\n");
    client.send(`${head}\r\n\r\n{`);
    expect((await client.response()).status).toBe(429);
    client.reset();
  });

  test("429 of the concurrency comes before 400", async () => {
    const open = Promise.withResolvers<void>();
    at.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(helloEvent));
      await open.promise;
      await raw(piece(stopEvent), streamEnd)(peer, at.provider.requests[0] ?? never());
    };
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const first = await openChat(at.gateway, key, { stream: true });
    expectRefusal(await call(at.gateway, key, { body: brokenBody }), tooOften);
    open.resolve();
    await first.seen("[DONE]");
    expect((await call(at.gateway, key, { body: brokenBody })).status).toBe(400);
  });

  test("400 comes before 404", async () => {
    const body = ask({ model: "unknown", temperature: 3 });
    expectRefusal(await call(at.gateway, await at.gateway.key(), { body }), wrongField);
  });

  test("404 comes before 429 of the tokens and before 402", async () => {
    const key = await exhausted(await at.gateway.key({ tokensPerMinute: 1 }));
    expectRefusal(await chat(at.gateway, key, { model: "unknown" }), unknownModel);
    const poor = await at.gateway.key({ balance: 0n });
    expectRefusal(await chat(at.gateway, poor, { model: "unknown" }), unknownModel);
  });

  test("404 of a model that the key may not use comes before 402", async () => {
    const poor = await at.gateway.key({ balance: 0n, models: ["other"] });
    expectRefusal(await chat(at.gateway, poor), unknownModel);
  });

  test("429 of the tokens comes before 402", async () => {
    const key = await at.gateway.key({ tokensPerMinute: 27, balance: 0n, overdraft: 300_000_000n });
    await exhausted(key);
    await at.gateway.unreserved(key);
    await at.gateway.store.admin.setAccount({ name: "tester", at: 0 }, key.account, {
      overdraft: 2_000_000n,
    });
    expectRefusal(await chat(at.gateway, key), tooOften);
    await at.gateway.advance(60_000);
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("402 comes before the provider, which is not called", async () => {
    expect((await chat(at.gateway, await at.gateway.key({ balance: 1n }))).status).toBe(402);
    expect(at.provider.requests).toHaveLength(0);
  });
});

describe("a connection after an early refusal", () => {
  test("answers its next request correctly, though the first body was not read", async () => {
    at.provider.answer = usual;
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes("no-key", "x".repeat(100_000)));
    expect((await client.response()).status).toBe(401);
    client.send(chatBytes((await at.gateway.key()).key, JSON.stringify(ask())));
    expect((await client.response()).status).toBe(200);
    client.fin();
  });
});

function never(): never {
  throw new Error("the provider was not called");
}
