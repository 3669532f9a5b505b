import { describe, expect, test } from "bun:test";
import { openMachineClock } from "../../src/lib/libc.ts";
import { RatesByKey } from "../../src/limits/keyRates.ts";
import { LocalRates, oneReplica } from "../../src/limits/rateLimits.ts";
import { SharedCells, tableBytes } from "../../src/limits/sharedCells.ts";
import { testLimiterRules } from "../support/limits/limiterRules.ts";
import { noLimits } from "../support/gateway/permits.ts";
import { several } from "../support/several.ts";

const PROCESSES = 3;

const machineMs = (await openMachineClock()) ?? (() => performance.now());

/** The tables of all processes over one memory. */
function openProcesses(): readonly SharedCells[] {
  const memory = new SharedArrayBuffer(tableBytes(PROCESSES));
  return several(
    PROCESSES,
    (number) => new SharedCells(memory, { at: 0, process: number, machineMs }),
  );
}

describe("limits in shared memory", () => {
  // Requests of a test come to one process after the other.
  let nowMs = performance.now();
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs };
  const limiters = openProcesses().map(({ find }) => new LocalRates(clock, oneReplica, find));
  let turn = 0;
  const limiter: LocalRates["admit"] = (keyId, limits) => {
    turn += 1;
    const next = limiters[turn % PROCESSES];
    if (next === undefined) throw new Error("no process");
    return next.admit(keyId, limits);
  };

  testLimiterRules(() => ({
    limiter: { admit: limiter },
    nowMs: () => nowMs,
    advance: (ms) => {
      nowMs += ms;
      return Promise.resolve();
    },
  }));
});

test("the slots of a process that was killed are free again", () => {
  const [one, other] = openProcesses();
  const limits = { ...noLimits, concurrentRequests: 4 };
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() };
  const killed = new LocalRates(clock, oneReplica, one?.find);
  const left = new LocalRates(clock, oneReplica, other?.find);
  expect(several(3, () => killed.admit(1, limits).ok)).toEqual([true, true, true]);
  expect(several(2, () => left.admit(1, limits).ok)).toEqual([true, false]);
  other?.ended(0);
  expect(several(4, () => left.admit(1, limits).ok)).toEqual([true, true, true, false]);
});

test("more keys than there is room for are limited too", () => {
  const [one] = openProcesses();
  const limits = { ...noLimits, concurrentRequests: 1, requestsPerMinute: 1 };
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() };
  const rates = new LocalRates(clock, oneReplica, one?.find);
  for (let keyId = 1; keyId <= 100_000; keyId += 1) {
    const first = rates.admit(keyId, limits);
    const second = rates.admit(keyId, limits);
    if (!first.ok || second.ok) throw new Error(`key ${keyId} is not limited`);
  }
});

test("a key has the entry of an idle one", () => {
  const [one, other] = openProcesses();
  const rates = new RatesByKey(one?.find ?? (() => never()));
  for (let keyId = 1; keyId <= 100_000; keyId += 1) {
    const key = rates.use(keyId, 0);
    expect(key.takeSlot(1)).toBeTrue();
    expect(key.takeSlot(1)).toBeFalse();
    key.releaseSlot();
  }
  expect(other?.find("key 1").slots.count).toBe(0);
});

function never(): never {
  throw new Error("there is no table");
}
