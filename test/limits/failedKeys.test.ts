import { expect, test } from "bun:test";
import { createFailedKeyLimits } from "../../src/limits/rateLimits.ts";

test("refuses no address if the config sets no limit", () => {
  const failed = createFailedKeyLimits({ epochMs: () => 0, monotonicMs: () => 0 });
  for (let time = 0; time < 3; time += 1) expect(failed.count("203.0.113.1", 0).ok).toBe(true);
});

test("drops the address that failed longest ago when there are too many", () => {
  const failed = createFailedKeyLimits({ epochMs: () => 0, monotonicMs: () => 0 });
  const fails = (address: string): boolean => failed.count(address, 1).ok;
  const [old, other] = ["203.0.113.1", "203.0.113.2"];
  expect([fails(old), fails(other), fails(old)]).toEqual([true, true, false]);
  for (let at = 0; at < 9_999; at += 1) fails(`10.0.${at >> 8}.${at & 255}`);
  expect([fails(old), fails(other)]).toEqual([false, true]);
});
