import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { RateLimitPermit } from "../../src/limits/keyRates.ts";
import type { RateLimitAdmission } from "../../src/limits/rateLimits.ts";
import { noLimits } from "../support/gateway/permits.ts";
import {
  openReplica,
  ServerView,
  type ReplicaSettings,
  type TestReplica,
} from "../support/limits/sharedLimiters.ts";
import { describeRedis } from "../support/servers/describeServers.ts";
import { startRedis, type RedisServer } from "../support/servers/redis.ts";
import { startTcpProxy, type TcpProxy } from "../support/servers/tcpProxy.ts";
import { amount } from "../support/sample.ts";
import { until, untilAsync } from "../support/until.ts";

/** Longer than the gateway's 10 ms: the machine of the tests is busy. */
const ANSWER_WITHIN_MS = 100;
/** The time for an answer, once more if the thread was busy, and the work of the burst itself. */
const ADMITTED_WITHIN_MS = 4 * ANSWER_WITHIN_MS;

const slotHolder = join(import.meta.dir, "../support/limits/slotHolder.ts");

describeRedis("a limits server that fails", () => {
  let server: RedisServer;
  let proxy: TcpProxy;
  let view: ServerView;
  const opened: TestReplica[] = [];

  beforeEach(async () => {
    server = await startRedis();
    proxy = await startTcpProxy(server.port);
    view = new ServerView(server.url);
  });

  afterEach(async () => {
    for (const { limiter } of opened.splice(0)) await limiter.close();
    await view[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
    await server.close();
  });

  /** A replica of three. Without a URL it reaches the server through the proxy. */
  async function opening(
    { times, ...settings }: ReplicaSettings = {},
    url = proxy.through(server.url),
  ): Promise<TestReplica> {
    const replica = openReplica(url, {
      replicas: 3,
      times: { answerWithinMs: ANSWER_WITHIN_MS, ...times },
      ...settings,
    });
    opened.push(replica);
    await replica.isUsed();
    return replica;
  }

  interface Fault {
    /** What is logged. */
    readonly problem: RegExp;
    fail(): void | Promise<void>;
    repair(): void | Promise<void>;
  }

  const silence = new RegExp(`^no answer within ${ANSWER_WITHIN_MS} ms$`);
  const gone = /^no connection: nothing accepts it, or it was closed$/;
  const faults: Readonly<Record<string, Fault>> = {
    "is killed": { problem: gone, fail: () => server.kill(), repair: () => server.start() },
    "is paused": { problem: silence, fail: () => server.pause(), repair: () => server.resume() },
    "is behind a network that hangs": {
      problem: silence,
      fail: () => proxy.hang(),
      repair: () => proxy.pass(),
    },
    "is slow": {
      problem: silence,
      fail: () => proxy.delay(3 * ANSWER_WITHIN_MS),
      repair: () => proxy.delay(0),
    },
    "resets connections and accepts none": {
      problem: gone,
      async fail() {
        await proxy.refuse();
        proxy.reset();
      },
      repair: () => proxy.pass(),
    },
  };

  describe.each(Object.entries(faults))("that %s", (_, fault) => {
    test("costs no request more than a moment, and each replica allows its share until it is back", async () => {
      const replica = await answered();

      await fault.fail();
      const startedMs = performance.now();
      const share = admittedOf(await burst(replica, 2));
      expect(performance.now() - startedMs).toBeLessThan(ADMITTED_WITHIN_MS);
      expect(share).toBe(100);
      await replica.isLost();
      // Nobody waits for a server that is known to be gone.
      for (let time = 0; time < 150; time += 1) {
        const admission = replica.limiter.admit(3, { ...noLimits, requestsPerMinute: 300 });
        expect(admission).toMatchObject({ ok: time < 100 });
      }
      expect(replica.problems).toEqual([expect.stringMatching(fault.problem)]);
      expect(replica.limiter.figures()).toEqual({ isUsed: false, byShare: 300 });

      await fault.repair();
      await replica.isUsed();
      await until("the outage is over", () => replica.outages.length > 0);
      expect(replica.outages).toEqual([{ durationMs: expect.any(Number), byShare: 300 }]);
      expect(admittedOf(await burst(replica, 4))).toBe(150);
      expect(replica.problems).toHaveLength(1);
    });
  });

  /** A replica whose burst the server has answered in time. A busy machine may be late. */
  async function answered(keyId = 100): Promise<TestReplica> {
    const replica = await opening();
    const isInTime = admittedOf(await burst(replica, keyId)) === 150;
    return isInTime ? replica : answered(keyId + 1);
  }

  /** 150 requests at once, of 300 in a minute. The share of one of three replicas is 100. */
  function burst(replica: TestReplica, keyId: number): Promise<readonly RateLimitAdmission[]> {
    const requests = Array.from({ length: 150 }, () =>
      replica.admit(keyId, { requestsPerMinute: 300 }),
    );
    return Promise.all(requests);
  }

  function admittedOf(admissions: readonly RateLimitAdmission[]): number {
    return admissions.filter(({ ok }) => ok).length;
  }

  test("that lost its scripts is asked as before", async () => {
    const replica = await opening({ times: { answerWithinMs: 10_000 } });
    await view.send("SCRIPT", "FLUSH");
    expect(admittedOf(await burst(replica, 1))).toBe(150);
    const permit = await admitted(replica, 2, { tokensPerMinute: 10 });
    await view.send("SCRIPT", "FLUSH");
    expect(await permit.takeTokens(4)).toEqual({ ok: true });
    expect(permit.remaining().tokens).toBe(6);
    expect(replica.limiter.figures()).toEqual({ isUsed: true, byShare: 0 });
  });

  test("never runs a call of before the failure", async () => {
    const replica = await opening();
    proxy.hang();
    await burst(replica, 1);
    proxy.reset();
    proxy.pass();
    await replica.isUsed();
    expect(await view.keys()).not.toContain("tollgate:rates:1");
  });

  test.each([
    ["those of the last minute", 60_000, false],
    ["none that is older", 100, true],
  ])("takes after an outage the tokens of its requests: %s", async (_, unsentForMs, ok) => {
    const replica = await opening({ times: { unsentForMs } });
    proxy.hang();
    await burst(replica, 1);
    await replica.isLost();
    const limits = { tokensPerMinute: 300 };
    const permit = await admitted(replica, 3, limits);
    expect(await permit.takeTokens(90)).toEqual({ ok: true });
    permit.correctTokens(300);
    await Bun.sleep(150);
    proxy.pass();
    await replica.isUsed();
    const next = await admitted(replica, 3, limits);
    expect(await next.takeTokens(10)).toMatchObject({ ok });
  });

  const atOnce = (): Promise<void> => Promise.resolve();
  const inTimer = (): Promise<void> => Bun.sleep(2);
  /** Resolves while the thread reads from its sockets. */
  const inRead = async (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const [hostname, data] = ["127.0.0.1", () => resolve()];
    const listener = Bun.listen({ hostname, port: 0, socket: { data } });
    const open = (socket: Bun.Socket): void => void socket.write("x");
    const socket = await Bun.connect({ hostname, port: listener.port, socket: { open, data } });
    await promise;
    socket.end();
    listener.stop();
  };
  /** The server of the tests may have to wait for a processor too. */
  const answerWithinMs = 200;
  const repeats = amount(4, 9);

  test.each<[string, () => Promise<void>, readonly number[]]>([
    ["before the call is sent", atOnce, [3]],
    ["after the call is sent", setImmediate, [3]],
    ["in a timer", inTimer, [3]],
    ["while it reads", inRead, [3]],
    ["again and again", atOnce, Array<number>(repeats).fill(0.7)],
    ["again and again, for longer", setImmediate, Array<number>(repeats).fill(1.2)],
    ["again and again, in timers", inTimer, Array<number>(repeats).fill(1.2)],
    ["again and again, while it reads", inRead, Array<number>(repeats).fill(1.2)],
  ])("is not blamed for a thread that is busy itself (%s)", async (_, begin, busy) => {
    // The proxy is in this thread.
    const replica = await opening({ times: { answerWithinMs } }, server.url);
    const bursts: Promise<unknown>[] = [];
    for (const [at, times] of busy.entries()) {
      bursts.push(burst(replica, at));
      await begin();
      const endMs = performance.now() + times * answerWithinMs;
      while (performance.now() < endMs);
      await setImmediate();
    }
    await Promise.all(bursts);
    expect(replica.limiter.figures()).toEqual({ isUsed: true, byShare: 0 });
  });

  test("gets a new connection if the old one is dead and does not say so", async () => {
    const replica = await opening();
    proxy.strand();
    expect(admittedOf(await burst(replica, 1))).toBe(100);
    await replica.isLost();
    await replica.isUsed();
    expect(admittedOf(await burst(replica, 2))).toBe(150);
  });

  describe("a slot", () => {
    const limits = { concurrentRequests: 3 };

    test("that was given too late belongs to the request that goes on without it", async () => {
      const replica = await opening();
      server.pause();
      const permit = await admitted(replica, 1, limits);
      server.resume();
      await replica.isUsed();
      await admitted(replica, 2, limits);
      expect(await view.slots(1)).toBe(1);
      permit.release();
      await slotsAre(1, 0);
    });

    test("that was given too late to a request that is refused, or over, is free again", async () => {
      const replica = await opening();
      server.pause();
      const asked = await Promise.all([1, 2, 3].map(() => replica.admit(1, limits)));
      // One slot is the share.
      expect(admittedOf(asked)).toBe(1);
      for (const one of asked) if (one.ok) one.permit.release();
      server.resume();
      await replica.isUsed();
      await slotsAre(1, 0);
    });

    test("is taken for a request that began without the server, and for those that the server forgot", async () => {
      const replica = await opening();
      const permits = [await admitted(replica, 1, limits), await admitted(replica, 1, limits)];
      await server.kill();
      await replica.isLost();
      permits.push(await admitted(replica, 2, limits));
      await server.start();
      await slotsAre(1, 2);
      await slotsAre(2, 1);
      for (const permit of permits) permit.release();
      await slotsAre(1, 0);
      await slotsAre(2, 0);
    });

    test("is freed when the server is back if its request ended meanwhile", async () => {
      const replica = await opening();
      const permits = [await admitted(replica, 1, limits), await admitted(replica, 1, limits)];
      proxy.hang();
      await admitted(replica, 2, limits);
      await replica.isLost();
      permits[0]?.release();
      proxy.pass();
      await slotsAre(1, 1);
      permits[1]?.release();
      await slotsAre(1, 0);
    });

    test("lives as long as its request", async () => {
      const replica = await opening({ times: { slotLifeMs: 300, renewEveryMs: 50 } });
      const permit = await admitted(replica, 1, limits);
      const ends = async () => {
        const slots = await view.send("ZRANGE", "tollgate:slots:1", "0", "0", "WITHSCORES");
        return (slots as [[string, number]])[0][1];
      };
      const firstEnd = await ends();
      await untilAsync(
        "its end moved by more than its life",
        async () => (await ends()) > firstEnd + 300,
      );
      permit.release();
      await slotsAre(1, 0);
    });

    test("of a replica that was killed is free again after its life, and the others' slots stay", async () => {
      const other = await opening({ times: { slotLifeMs: 500, renewEveryMs: 50 } });
      const most = { concurrentRequests: 4 };
      await admitted(other, 1, most);
      const holder = Bun.spawn([process.execPath, slotHolder, server.url, "1", "3", "500"], {
        stdout: "pipe",
      });
      const { value } = await holder.stdout.getReader().read();
      expect(new TextDecoder().decode(value)).toBe("holds\n");
      expect(await other.admit(1, most)).toMatchObject({ ok: false });
      holder.kill("SIGKILL");
      await holder.exited;
      await slotsAre(1, 1);
      await other.isUsed();
      for (let time = 0; time < 3; time += 1) await admitted(other, 1, most);
      expect(await other.admit(1, most)).toMatchObject({ ok: false });
    });

    test("does not come back if its request ends during a long renewal", async () => {
      const replica = await opening({ times: { answerWithinMs: 5000, renewEveryMs: 1 } });
      for (const keyId of [1, 2, 3]) {
        const permits = await Promise.all(
          Array.from({ length: 900 }, () => admitted(replica, keyId, { concurrentRequests: 1000 })),
        );
        // A renewal takes five round trips, and the next one follows at once.
        proxy.delay(5);
        await replica.admit(4, limits);
        for (const permit of permits) permit.release();
        proxy.delay(0);
        await slotsAre(keyId, 0);
        await replica.admit(4, limits);
        expect(await view.slots(keyId)).toBe(0);
      }
    });

    test("that is released just before the end is free", async () => {
      const replica = await opening();
      const permits = [await admitted(replica, 1, limits), await admitted(replica, 1, limits)];
      for (const permit of permits) permit.release();
      await replica.limiter.close();
      expect(await view.slots(1)).toBe(0);
    });
  });

  test("is told the tokens that were counted, once, whoever took the estimate", async () => {
    const replica = await opening();
    const limits = { tokensPerMinute: 600 };
    const permits = [await admitted(replica, 1, limits), await admitted(replica, 1, limits)];
    await permits[0]?.takeTokens(150);
    server.pause();
    // The share is what is left, by the number of replicas: 450 / 3.
    expect(await permits[1]?.takeTokens(160)).toMatchObject({ ok: false });
    expect(await permits[1]?.takeTokens(140)).toEqual({ ok: true });
    server.resume();
    await replica.isUsed();
    permits[0]?.correctTokens(100);
    permits[1]?.correctTokens(50);
    const after = await admitted(replica, 1, limits);
    // 600 are full. Ten more come each second.
    expect(after.remaining().tokens).toBeWithin(450, 480);
  });

  async function admitted(
    replica: TestReplica,
    keyId: number,
    limits: Parameters<TestReplica["admit"]>[1],
  ): Promise<RateLimitPermit> {
    const admission = await replica.admit(keyId, limits);
    if (!admission.ok) throw new Error("refused");
    return admission.permit;
  }

  /** Resolves long before a slot would end by itself. */
  async function slotsAre(keyId: number, count: number): Promise<void> {
    const isSo = async () => (await view.slots(keyId).catch(() => undefined)) === count;
    await untilAsync(`key ${keyId} has ${count} slots`, isSo, 5000);
  }
});
