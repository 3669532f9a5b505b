import { expect, test } from "bun:test";
import { createFailedKeyLimits } from "../../src/limits/wrongCodes.ts";

const clock = { epochMs: () => 0, monotonicMs: () => 0 };

test("refuses no address if the config sets no limit", () => {
  const failed = createFailedKeyLimits(clock);
  for (let time = 0; time < 3; time += 1) expect(failed.count("203.0.113.1", 0).ok).toBe(true);
});

test("drops the address that failed longest ago when there are too many", () => {
  const failed = createFailedKeyLimits(clock);
  const fails = (address: string): boolean => failed.count(address, 1).ok;
  const [old, other] = ["203.0.113.1", "203.0.113.2"];
  expect([fails(old), fails(other), fails(old)]).toEqual([true, true, false]);
  for (let at = 0; at < 9_999; at += 1) fails(`10.0.${at >> 8}.${at & 255}`);
  expect([fails(old), fails(other)]).toEqual([false, true]);
});

test("admits a replica's share, which is at least one", () => {
  let replicas = 3;
  const failed = createFailedKeyLimits(clock, () => replicas);
  const admitted = (address: string, perMinute: number): number => {
    let count = 0;
    while (failed.count(address, perMinute).ok) count += 1;
    return count;
  };
  expect([admitted("203.0.113.1", 60), admitted("203.0.113.2", 2)]).toEqual([20, 1]);
  replicas = 1;
  expect(admitted("203.0.113.1", 60)).toBe(0);
});
