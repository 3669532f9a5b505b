import { expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { createLimiter } from "../../src/limits/keyLimits.ts";

test("a place of a key is given back once, and then to one request", () => {
  const limiter = createLimiter(systemClock);
  const limits = { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 1 };
  const admission = limiter.admit(1, limits);
  if (!admission.ok) throw new Error("the first request found no place");
  expect(limiter.admit(1, limits).ok).toBe(false);
  admission.passage.release();
  expect(() => admission.passage.release()).toThrow("released twice");
  expect([limiter.admit(1, limits).ok, limiter.admit(1, limits).ok]).toEqual([true, false]);
});
