import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RateLimitPermit } from "../../src/limits/keyRates.ts";
import { testLimiterRules, type LimiterUnderTest } from "../support/limits/limiterRules.ts";
import { openReplica, ServerView, type TestReplica } from "../support/limits/sharedLimiters.ts";
import { describeRedis } from "../support/servers/describeServers.ts";
import { startRedis, type RedisServer } from "../support/servers/redis.ts";

let server: RedisServer;
let view: ServerView;
const opened: TestReplica[] = [];

describeRedis("limits on a server", () => {
  beforeAll(async () => {
    server = await startRedis();
    view = new ServerView(server.url);
  });

  afterAll(async () => {
    for (const { limiter } of opened) await limiter.close();
    await view[Symbol.asyncDispose]();
    await server.close();
  });

  /** Replicas of a fleet of this size. */
  async function fleet(size: number): Promise<readonly TestReplica[]> {
    const replicas = Array.from({ length: size }, () =>
      openReplica(server.url, { replicas: size }),
    );
    opened.push(...replicas);
    for (const replica of replicas) await replica.isUsed();
    return replicas;
  }

  describe("a limiter that asks it", () => {
    let under: LimiterUnderTest;
    beforeAll(async () => {
      let nowMs = 0;
      const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs };
      const replica = openReplica(server.url, { clock });
      opened.push(replica);
      await replica.isUsed();
      under = {
        limiter: replica.limiter,
        nowMs: clock.monotonicMs,
        async advance(ms) {
          nowMs += ms;
          await view.age(ms);
        },
      };
    });
    testLimiterRules(() => under);
    test("was asked each time", () =>
      expect(opened[0]?.limiter.figures()).toEqual({ isUsed: true, byShare: 0 }));
  });

  describe("three replicas together", () => {
    let keyId = 1000;
    /** What each of 60 admissions at once came to, spread over the replicas. */
    async function burst(limits: Parameters<TestReplica["admit"]>[1]) {
      const replicas = await fleet(3);
      keyId += 1;
      const admissions = await Promise.all(
        Array.from({ length: 20 }, () => replicas.map((one) => one.admit(keyId, limits))).flat(),
      );
      return { replicas, permits: admissions.flatMap((one) => (one.ok ? [one.permit] : [])) };
    }

    test("admit exactly the requests of a rate", async () => {
      // It refills with one in six seconds.
      expect((await burst({ requestsPerMinute: 10 })).permits).toHaveLength(10);
    });

    test("take exactly the tokens of a rate", async () => {
      const { permits } = await burst({ tokensPerMinute: 1000 });
      const taken = await Promise.all(permits.map(async (permit) => await permit.takeTokens(90)));
      expect(taken.filter(({ ok }) => ok)).toHaveLength(11);
    });

    test("admit exactly as many requests at once as there are slots", async () => {
      const { replicas, permits } = await burst({ concurrentRequests: 7 });
      expect(permits).toHaveLength(7);
      expect(await view.slots(keyId)).toBe(7);
      const release = (count: number) => permits.splice(0, count).forEach((one) => one.release());
      release(3);
      const more = await Promise.all(
        replicas.flatMap((one) => [1, 2, 3].map(() => one.admit(keyId, { concurrentRequests: 7 }))),
      );
      permits.push(...more.flatMap((one) => (one.ok ? [one.permit] : [])));
      expect(permits).toHaveLength(7);
      release(7);
      await emptied(replicas);
      expect(await view.slots(keyId)).toBe(0);
    });
  });

  /** Resolves when the server has done what the replicas told it before. */
  async function emptied(replicas: readonly TestReplica[]): Promise<void> {
    for (const { admit } of replicas) await admit(1, { tokensPerMinute: 1 });
  }

  test("a replica shows what the others use", async () => {
    const [first, second] = (await fleet(2)) as [TestReplica, TestReplica];
    const limits = { requestsPerMinute: 10, tokensPerMinute: 100, concurrentRequests: 5 };
    const admitted = async (replica: TestReplica): Promise<RateLimitPermit> => {
      const admission = await replica.admit(2001, limits);
      if (!admission.ok) throw new Error("refused");
      return admission.permit;
    };
    for (let time = 0; time < 2; time += 1) await (await admitted(first)).takeTokens(20);
    const permit = await admitted(second);
    expect(permit.remaining()).toEqual({ requests: 7, tokens: 60, concurrentRequests: 3 });
    permit.release();
    expect(permit.remaining()).toMatchObject({ concurrentRequests: 3 });
  });

  test("its keys have numbers as names, and end by themselves", async () => {
    const [replica] = (await fleet(1)) as [TestReplica];
    await view.send("FLUSHALL");
    const limits = { requestsPerMinute: 10, tokensPerMinute: 10, concurrentRequests: 5 };
    const admission = await replica.admit(2002, limits);
    if (!admission.ok) throw new Error("refused");
    await admission.permit.takeTokens(35);
    expect(await view.keys()).toEqual(["tollgate:rates:2002", "tollgate:slots:2002"]);
    const life = async (key: string) => Number(await view.send("PTTL", key));
    // The bucket has 25 tokens less than none. It is full after 3.5 minutes.
    expect(await life("tollgate:rates:2002")).toBeWithin(200_000, 210_001);
    expect(await life("tollgate:slots:2002")).toBeWithin(14_000, 15_001);
  });

  test("the largest limits keep all digits", async () => {
    const [replica] = (await fleet(1)) as [TestReplica];
    const limits = { requestsPerMinute: 1e9, tokensPerMinute: 1e12, concurrentRequests: 1e6 };
    const admission = await replica.admit(2003, limits);
    if (!admission.ok) throw new Error("refused");
    await admission.permit.takeTokens(1e12 - 1);
    const fields = ["requests", "requests_limit", "tokens_limit"];
    expect(await view.send("HMGET", "tollgate:rates:2003", ...fields)).toEqual([
      "999999999",
      "1000000000",
      "1000000000000",
    ]);
    expect(admission.permit.remaining()).toMatchObject({ concurrentRequests: 1e6 });
  });
});
