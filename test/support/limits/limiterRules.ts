import { expect, test } from "bun:test";
import type { KeyBuckets, KeyLimits, RateLimitPermit } from "../../../src/limits/keyRates.ts";
import type { RateLimiter } from "../../../src/limits/rateLimits.ts";
import type { RateLimitResult, TokenBucket } from "../../../src/limits/tokenBucket.ts";
import { noLimits } from "../gateway/permits.ts";

/** A limiter whose time stands still until it is advanced. */
export interface LimiterUnderTest {
  readonly limiter: RateLimiter;
  nowMs(): number;
  advance(ms: number): Promise<void>;
}

const perMinute = (requestsPerMinute: number): KeyLimits => ({ ...noLimits, requestsPerMinute });
const tokens = (tokensPerMinute: number): KeyLimits => ({ ...noLimits, tokensPerMinute });
const atOnce = (concurrentRequests: number): KeyLimits => ({ ...noLimits, concurrentRequests });

/** Real time passes while a limits server is asked, so its times may be shorter. */
function expectAbout(actualMs: number, ms: number): void {
  expect(actualMs).toBeWithin(ms - 1000, ms + 1);
}

function waitOf(result: RateLimitResult): number {
  if (result.ok) throw new Error("the tokens were taken");
  return result.retryAfterMs;
}

/** Registers the tests of what every rate limiter promises. A key id is used by one test only. */
export function testLimiterRules(opened: () => LimiterUnderTest): void {
  let keyId = 0;
  const use = () => {
    keyId += 1;
    return new KeyUse(opened(), keyId);
  };

  test("admits as many requests as the rate allows, and refills evenly", async () => {
    const key = use();
    for (let time = 0; time < 6; time += 1) await key.admitted(perMinute(6));
    expectAbout(await key.waitMs(perMinute(6)), 10_000);
    await key.advance(5000);
    expectAbout(await key.waitMs(perMinute(6)), 5000);
    await key.advance(5000);
    await key.admitted(perMinute(6));
    expectAbout(await key.waitMs(perMinute(6)), 10_000);
    await key.advance(600_000);
    for (let time = 0; time < 6; time += 1) await key.admitted(perMinute(6));
    expectAbout(await key.waitMs(perMinute(6)), 10_000);
  });

  test("counts each key by itself", async () => {
    const [first, second] = [use(), use()];
    await first.admitted(perMinute(1));
    expectAbout(await first.waitMs(perMinute(1)), 60_000);
    await second.admitted(perMinute(1));
  });

  test("admits every request of a key without limits, and has nothing to show", async () => {
    const key = use();
    for (let time = 0; time < 10; time += 1) {
      const permit = await key.admitted(noLimits);
      expect(await permit.takeTokens(1_000_000_000)).toEqual({ ok: true });
      expect(permit.remaining()).toEqual({
        requests: undefined,
        tokens: undefined,
        concurrentRequests: undefined,
      });
      expect([permit.buckets.requests, permit.buckets.tokens]).toEqual([undefined, undefined]);
    }
  });

  test("takes tokens or nothing", async () => {
    const key = use();
    const [first, second] = [await key.admitted(tokens(10)), await key.admitted(tokens(10))];
    expect(await first.takeTokens(7)).toEqual({ ok: true });
    expectAbout(waitOf(await second.takeTokens(4)), 6000);
    expect(key.shown(second).tokens).toEqual([10, 3, 42]);
    expect(await second.takeTokens(3)).toEqual({ ok: true });
    expect(key.shown(second).tokens).toEqual([10, 0, 60]);
  });

  test("lets an amount of more than a minute's worth through when the bucket is full", async () => {
    const key = use();
    const [first, second] = [await key.admitted(tokens(10)), await key.admitted(tokens(10))];
    expect(await first.takeTokens(25)).toEqual({ ok: true });
    expect(key.shown(first).tokens).toEqual([10, 0, 150]);
    expectAbout(waitOf(await second.takeTokens(1)), 96_000);
    await key.advance(100_000);
    expectAbout(waitOf(await second.takeTokens(25)), 50_000);
    await key.advance(50_000);
    expect(await second.takeTokens(25)).toEqual({ ok: true });
  });

  test("replaces the estimate by the counted tokens", async () => {
    const key = use();
    const first = await key.admitted(tokens(10));
    expect(await first.takeTokens(6)).toEqual({ ok: true });
    first.correctTokens(2);
    const second = await key.admitted(tokens(10));
    expect(key.shown(second).tokens).toEqual([10, 8, 12]);
    expect(await second.takeTokens(8)).toEqual({ ok: true });
    second.correctTokens(18);
    const third = await key.admitted(tokens(10));
    expect(key.shown(third).tokens).toEqual([10, 0, 120]);
    expectAbout(waitOf(await third.takeTokens(1)), 66_000);
    third.correctTokens(0);
  });

  test("never has more than a minute's worth after a correction", async () => {
    const key = use();
    const first = await key.admitted(tokens(10));
    expect(await first.takeTokens(6)).toEqual({ ok: true });
    await key.advance(60_000);
    first.correctTokens(0);
    const second = await key.admitted(tokens(10));
    expect(await second.takeTokens(9)).toEqual({ ok: true });
    expect(await second.takeTokens(2)).toMatchObject({ ok: false });
  });

  test("admits as many requests at once as there are slots, and frees a slot once", async () => {
    const key = use();
    const first = await key.admitted(atOnce(2));
    const second = await key.admitted(atOnce(2));
    expect(await key.waitMs(atOnce(2))).toBe(1000);
    expect([first.remaining(), second.remaining()]).toMatchObject([
      { concurrentRequests: 1 },
      { concurrentRequests: 1 },
    ]);
    first.release();
    expect(() => first.release()).toThrow("released twice");
    const third = await key.admitted(atOnce(2));
    expect(await key.waitMs(atOnce(2))).toBe(1000);
    for (const permit of [second, third]) permit.release();
    expect((await key.admitted(atOnce(2))).remaining()).toMatchObject({ concurrentRequests: 2 });
  });

  test("takes no request from the rate for a request without a slot, and no slot without a rate", async () => {
    const key = use();
    const limits = { ...noLimits, requestsPerMinute: 2, concurrentRequests: 1 };
    const first = await key.admitted(limits);
    expect(await key.waitMs(limits)).toBe(1000);
    first.release();
    (await key.admitted(limits)).release();
    expectAbout(await key.waitMs(limits), 30_000);
    await key.advance(30_000);
    (await key.admitted(limits)).release();
  });

  test("shows limit, rest, and time until the bucket is full", async () => {
    const key = use();
    const limits = { ...noLimits, requestsPerMinute: 6, tokensPerMinute: 20 };
    const first = await key.admitted(limits);
    await first.takeTokens(10);
    expect(key.shown(first)).toEqual({ requests: [6, 5, 10], tokens: [20, 10, 30] });
    const second = await key.admitted(limits);
    expect(key.shown(second)).toEqual({ requests: [6, 4, 20], tokens: [20, 10, 30] });
    expect(second.remaining()).toMatchObject({ requests: 4, tokens: 10 });
    await key.advance(15_000);
    const third = await key.admitted(limits);
    expect(key.shown(third)).toEqual({ requests: [6, 4, 15], tokens: [20, 15, 15] });
  });

  test("keeps the same part of a bucket when a limit changes", async () => {
    const key = use();
    const first = await key.admitted(perMinute(4));
    expect(key.shown(first).requests).toEqual([4, 3, 15]);
    const raised = await key.admitted(perMinute(8));
    expect(key.shown(raised).requests).toEqual([8, 5, 23]);
    for (let time = 0; time < 3; time += 1) await key.admitted(perMinute(8));
    const lowered = await key.admitted(perMinute(4));
    expect(key.shown(lowered).requests).toEqual([4, 0, 60]);
    expectAbout(await key.waitMs(perMinute(4)), 15_000);
  });

  test("counts open requests against a changed number of slots", async () => {
    const key = use();
    const permits = [await key.admitted(atOnce(3)), await key.admitted(atOnce(3))];
    expect(await key.waitMs(atOnce(2))).toBe(1000);
    permits[0]?.release();
    await key.admitted(atOnce(2));
  });
}

/** The requests of one key. */
class KeyUse {
  readonly #under: LimiterUnderTest;
  readonly #keyId: number;

  constructor(under: LimiterUnderTest, keyId: number) {
    this.#under = under;
    this.#keyId = keyId;
  }

  advance(ms: number): Promise<void> {
    return this.#under.advance(ms);
  }

  async admitted(limits: KeyLimits): Promise<RateLimitPermit> {
    const admission = await this.#under.limiter.admit(this.#keyId, limits);
    if (!admission.ok) throw new Error(`refused for ${admission.retryAfterMs} ms`);
    return admission.permit;
  }

  /** After how many milliseconds a refused request may come again. */
  async waitMs(limits: KeyLimits): Promise<number> {
    const admission = await this.#under.limiter.admit(this.#keyId, limits);
    if (admission.ok) throw new Error("admitted");
    return admission.retryAfterMs;
  }

  /** Limit, rest and seconds until full, as the headers have them. */
  shown(permit: RateLimitPermit | undefined): Record<keyof KeyBuckets, readonly number[]> {
    const now = this.#under.nowMs();
    const of = (bucket: TokenBucket | undefined): readonly number[] =>
      bucket
        ? [bucket.perMinute, bucket.remaining(now), Math.ceil(bucket.resetMs(now) / 1000)]
        : [];
    return { requests: of(permit?.buckets.requests), tokens: of(permit?.buckets.tokens) };
  }
}
