import { expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { createRateLimiter } from "../../src/limits/rateLimits.ts";

test("releases a slot of a key once", () => {
  const rateLimiter = createRateLimiter(systemClock);
  const limits = { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 1 };
  const admission = rateLimiter.admit(1, limits);
  if (!admission.ok) throw new Error("the first request found no slot");
  expect(rateLimiter.admit(1, limits).ok).toBe(false);
  admission.permit.release();
  expect(() => admission.permit.release()).toThrow("released twice");
  expect([rateLimiter.admit(1, limits).ok, rateLimiter.admit(1, limits).ok]).toEqual([true, false]);
});
