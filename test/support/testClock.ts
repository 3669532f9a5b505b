import { systemClock, type Clock } from "../../src/lib/clock.ts";

/** The system's clocks, which a test can put ahead. Timers go on as before: only what asks for the time sees it. */
export interface TestClock extends Clock {
  advance(byMs: number): void;
}

export function createTestClock(): TestClock {
  let aheadMs = 0;
  return {
    epochMs: () => systemClock.epochMs() + aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    advance(byMs) {
      aheadMs += byMs;
    },
  };
}
