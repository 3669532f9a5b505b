import { describe, expect, test } from "bun:test";
import { LocalRates, oneReplica } from "../../src/limits/rateLimits.ts";
import { createWrongCodeLimits } from "../../src/limits/wrongCodes.ts";
import { admitNow, noLimits } from "../support/gateway/permits.ts";
import { testLimiterRules } from "../support/limits/limiterRules.ts";

function stoppedClock() {
  let nowMs = 0;
  return {
    epochMs: () => nowMs,
    monotonicMs: () => nowMs,
    advance: (ms: number) => {
      nowMs += ms;
    },
  };
}

describe("a limiter in memory", () => {
  const clock = stoppedClock();
  const under = {
    limiter: new LocalRates(clock, oneReplica),
    nowMs: clock.monotonicMs,
    advance: (ms: number) => Promise.resolve(clock.advance(ms)),
  };
  testLimiterRules(() => under);
});

describe("a replica's share", () => {
  function open(replicas: number) {
    const clock = stoppedClock();
    const live = { replicas };
    const limiter = new LocalRates(clock, () => live.replicas);
    /** How many of 100 requests are admitted. */
    const admitted = (limits: Partial<typeof noLimits>): number => {
      let count = 0;
      for (let time = 0; time < 100; time += 1) {
        if (admitNow(limiter, 1, { ...noLimits, ...limits }).ok) count += 1;
      }
      return count;
    };
    return { clock, live, limiter, admitted };
  }

  test.each([
    ["of a rate", { requestsPerMinute: 90 }, 3, 30],
    ["of a rate that does not divide", { requestsPerMinute: 10 }, 4, 2],
    ["of a rate below the number of replicas is one request", { requestsPerMinute: 2 }, 5, 1],
    ["of slots", { concurrentRequests: 10 }, 3, 3],
    ["of too few slots is one", { concurrentRequests: 2 }, 5, 1],
    ["of no limit is no limit", {}, 3, 100],
  ])("%s", (_, limits, replicas, expected) => {
    expect(open(replicas).admitted(limits)).toBe(expected);
  });

  test("refills as its part of the limit does", () => {
    const { clock, admitted } = open(4);
    expect(admitted({ requestsPerMinute: 10 })).toBe(2);
    clock.advance(120_000);
    expect(admitted({ requestsPerMinute: 10 })).toBe(2);
    clock.advance(20_000);
    // 0.5 were left, and 20 s add 0.83.
    expect(admitted({ requestsPerMinute: 10 })).toBe(1);
  });

  test("changes with the number of replicas, and gives nobody a full bucket", () => {
    const { clock, live, admitted } = open(2);
    expect(admitted({ requestsPerMinute: 60 })).toBe(30);
    live.replicas = 1;
    expect(admitted({ requestsPerMinute: 60 })).toBe(0);
    clock.advance(30_000);
    live.replicas = 3;
    expect(admitted({ requestsPerMinute: 60 })).toBe(10);
  });

  test("of wrong codes is at least one", () => {
    const clock = stoppedClock();
    for (const [replicas, expected] of [
      [1, 10],
      [3, 3],
      [40, 1],
    ] as const) {
      const limits = createWrongCodeLimits(clock, () => replicas);
      let count = 0;
      const guesser = { accountId: 1, firstKeyId: 1 };
      while (limits.check(guesser).ok) {
        limits.count(guesser);
        count += 1;
      }
      expect(count).toBe(expected);
    }
  });
});
