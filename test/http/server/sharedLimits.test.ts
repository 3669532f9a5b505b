import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import {
  call,
  chat,
  expectRefusal,
  openChat,
  tooOften,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { KeyOptions, TestKey } from "../../support/gateway/testApp.ts";
import { openReplica, ServerView, type TestReplica } from "../../support/limits/sharedLimiters.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { describeRedis } from "../../support/servers/describeServers.ts";
import { startRedis, type RedisServer } from "../../support/servers/redis.ts";
import { until, untilAsync } from "../../support/until.ts";

describeRedis("two gateways that count limits on one server", () => {
  const [first, second] = [openOneModelBefore(), openOneModelBefore()];
  const replicas: TestReplica[] = [];
  let server: RedisServer;
  let view: ServerView;
  /** Requests for which a limiter was asked. */
  let asked = 0;
  /** The number of the key that was made last. Each gateway has a database of its own, with the same numbers. */
  let keyNumber = 0;

  beforeAll(async () => {
    server = await startRedis();
    view = new ServerView(server.url);
    for (const { gateway } of [first, second]) {
      const replica = openReplica(server.url, { replicas: 2 });
      replicas.push(replica);
      await replica.isUsed();
      gateway.app.rateLimiter.admit = (keyId, limits) => {
        asked += 1;
        return replica.limiter.admit(keyId, limits);
      };
    }
  });

  afterEach(async () => {
    await slotsAre(0);
    for (const { limiter } of replicas) expect(limiter.figures().byShare).toBe(0);
  });

  afterAll(async () => {
    for (const { limiter } of replicas) await limiter.close();
    await view[Symbol.asyncDispose]();
    await server.close();
  });

  /** One key of the fleet, as each gateway knows it. */
  async function newKey(options: KeyOptions): Promise<readonly [TestKey, TestKey]> {
    keyNumber += 1;
    return [await first.gateway.key(options), await second.gateway.key(options)];
  }

  const slotsAre = (count: number): Promise<void> =>
    untilAsync(`${count} slots`, async () => (await view.slots(keyNumber)) === count, 5000);

  const remaining = ({ headers }: Reply, what: "requests" | "tokens") =>
    headers.get(`x-ratelimit-remaining-${what}`);

  test("count requests together, and say so in the headers", async () => {
    const keys = await newKey({ requestsPerMinute: 3 });
    const seen = [
      await call(first.gateway, keys[0], { path: "/v1/models" }),
      await call(second.gateway, keys[1], { path: "/v1/models" }),
      await call(first.gateway, keys[0], { path: "/v1/account" }),
    ];
    expect(seen.map((reply) => remaining(reply, "requests"))).toEqual(["2", "1", "0"]);
    expect(seen[2]?.body).toMatchObject({ key: { limits_remaining: { requests: 0 } } });
    const refused = await chat(second.gateway, keys[1]);
    expectRefusal(refused, tooOften);
    expect([refused.headers.get("retry-after"), remaining(refused, "requests")]).toEqual([
      "20",
      "0",
    ]);
  });

  test("count the tokens of a prompt, and then those of its answer", async () => {
    const keys = await newKey({ tokensPerMinute: 1000 });
    first.provider.answer = answered({ usage: { prompt_tokens: 300, completion_tokens: 400 } });
    expect((await chat(first.gateway, keys[0])).status).toBe(200);
    const seen = await call(second.gateway, keys[1], { path: "/v1/models" });
    // Some refill while the test runs.
    expect(Number(remaining(seen, "tokens"))).toBeWithin(300, 350);
    const content = "word ".repeat(600);
    const refused = await chat(second.gateway, keys[1], { messages: [{ role: "user", content }] });
    expectRefusal(refused, tooOften);
  });

  test("share the slots of a key, and free one at the end of its answer", async () => {
    const keys = await newKey({ concurrentRequests: 1 });
    const go = Promise.withResolvers<void>();
    first.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), piece(doneEvent), streamEnd)(peer, request);
    };
    const open = await openChat(first.gateway, keys[0], { stream: true });
    expectRefusal(await chat(second.gateway, keys[1]), tooOften);
    go.resolve();
    await open.seen("[DONE]");
    await slotsAre(0);
    second.provider.answer = usual;
    expect((await chat(second.gateway, keys[1])).status).toBe(200);
  });

  test("free the slot of a client that disconnects", async () => {
    const keys = await newKey({ concurrentRequests: 1 });
    first.provider.answer = raw(streamHead, piece(helloEvent));
    const open = await openChat(first.gateway, keys[0], { stream: true });
    await open.seen("Hello");
    await slotsAre(1);
    open.disconnect();
  });

  test("refuse a request during which the stop begins, and keep no slot of it", async () => {
    const [key] = await newKey({ concurrentRequests: 1 });
    const { app } = first.gateway;
    const before = asked;
    server.pause();
    const waiting = chat(first.gateway, key);
    await until("the server is asked", () => asked > before);
    app.phase = "refusing";
    server.resume();
    expect((await waiting).status).toBe(502);
    app.phase = "serving";
    expect(app.requests.open).toBe(0);
  });
});
