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
import { prices } from "../../support/gateway/gatewayConfig.ts";
import { testSqlite } from "../../support/testedEngines.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw, postBytes } from "../../support/gateway/rawClient.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const at = openOneModelBefore();

const freeOfCharge = {
  free: true,
  rub_input_per_1m: 0,
  rub_output_per_1m: 0,
  rub_cached_input_per_1m: 0,
  rub_cache_write_per_1m: 0,
};

/** The same provider with a free model beside it. */
const withFree = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    { id: "small", routes: [{ provider: "local" }] },
    { id: "free", routes: [{ provider: "local" }], settings: freeOfCharge },
  ],
}));

/** One message without text, and one token of an answer. */
const enoughForTheLeast = BigInt((256 + 16) * prices.cacheWrite + prices.output);

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

  test("404 comes before 429 of the tokens, and before 402 where the money pays for something", async () => {
    const key = await exhausted(await at.gateway.key({ tokensPerMinute: 1 }));
    expectRefusal(await chat(at.gateway, key, { model: "unknown" }), unknownModel);
    const poor = await at.gateway.key({ balance: enoughForTheLeast });
    expectRefusal(await chat(at.gateway, poor, { model: "unknown" }), unknownModel);
  });

  test("404 of a model that the key may not use comes before 402", async () => {
    const poor = await at.gateway.key({ balance: 0n, models: ["other"] });
    expectRefusal(await chat(at.gateway, poor), unknownModel);
  });

  describe("402 of an account that can pay for nothing comes before the body is read", () => {
    const paths = [
      "/v1/chat/completions",
      "/v1/responses",
      "/v1/messages",
      "/v1/messages/count_tokens",
      "/v1/embeddings",
    ];

    test.each(paths)("%s", async (path) => {
      const poor = await at.gateway.key({ balance: enoughForTheLeast - 1n });
      // A replica has to ask its database first. Then it knows.
      expect((await chat(at.gateway, poor)).status).toBe(402);
      const { key } = poor;
      const client = await connectRaw(at.gateway.port);
      const [head = ""] = postBytes(path, key, "x".repeat(250_000)).split("\r\n\r\n");
      client.send(`${head}\r\n\r\n{`);
      const { status, body } = await client.response();
      const details = {
        message: "insufficient balance",
        type: "billing_error",
        code: "insufficient_balance",
        required_rub: "0.00836",
        available_rub: "0.008359999",
      };
      expect([status, JSON.parse(body)]).toMatchObject([402, { error: details }]);
      expect("request_id" in JSON.parse(body)).toBe(path.startsWith("/v1/messages"));
      client.reset();
    });

    testSqlite("also a minute later, because no other gateway charges the account", async () => {
      const poor = await at.gateway.key({ balance: 0n });
      expect((await chat(at.gateway, poor)).status).toBe(402);
      await at.gateway.advance(60_000);
      expect((await call(at.gateway, poor, { body: brokenBody })).status).toBe(402);
    });

    test("and so does that of a key whose budget is used up, but not of the account's other keys", async () => {
      const key = await at.gateway.key({ budget: enoughForTheLeast - 1n });
      expect((await chat(at.gateway, key)).status).toBe(402);
      expect((await call(at.gateway, key, { body: brokenBody })).status).toBe(402);
      const sibling = await at.gateway.key({ account: key.account });
      expect((await call(at.gateway, sibling, { body: brokenBody })).status).toBe(400);
    });

    test("but only if no model that the key may use is cheap enough", async () => {
      withFree.providers.local.answer = usual;
      for (const [models, statuses] of [
        [undefined, [402, 200]],
        [["free"], [404, 200]],
        [["small"], [402, 402]],
      ] as const) {
        const key = await withFree.gateway.key({ balance: 0n, ...(models && { models }) });
        const seen = [];
        for (const model of ["small", "free"])
          seen.push((await chat(withFree.gateway, key, { model })).status);
        expect(seen).toEqual([...statuses]);
      }
    });

    test("and until a credit, which counts at the next request", async () => {
      at.provider.answer = usual;
      const key = await at.gateway.key({ balance: 0n });
      for (let time = 0; time < 3; time += 1)
        expect((await chat(at.gateway, key)).status).toBe(402);
      await at.gateway.store.admin.setAccount(
        { name: "tester", command: "test", at: 0 },
        key.account,
        {
          overdraft: 300_000_000n,
        },
      );
      await at.gateway.toldOfChanges();
      expect((await chat(at.gateway, key)).status).toBe(200);
    });
  });

  test("429 of the tokens comes before 402", async () => {
    const key = await at.gateway.key({ tokensPerMinute: 27, balance: 0n, overdraft: 300_000_000n });
    await exhausted(key);
    await at.gateway.unreserved(key);
    await at.gateway.store.admin.setAccount(
      { name: "tester", command: "test", at: 0 },
      key.account,
      {
        overdraft: 11_000_000n,
      },
    );
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
