import { expect, test } from "bun:test";
import { Pace } from "../../src/store/writer/pace.ts";

const PACE_MS = 25;

/** How long each of many operations waits for its transaction, if one comes each `everyMs`. */
function waits(everyMs: number, startMs = 0): readonly number[] {
  const pace = new Pace({ many: 40, everyMs: PACE_MS });
  const found: number[] = [];
  let sendsAtMs = -1;
  let waiting = 0;
  for (let nowMs = startMs; nowMs < startMs + 1000; nowMs += everyMs) {
    if (waiting > 0 && sendsAtMs <= nowMs) {
      pace.started(sendsAtMs, waiting);
      waiting = 0;
    }
    waiting += 1;
    if (waiting === 1) sendsAtMs = nowMs + pace.delayMs(nowMs, waiting);
    found.push(sendsAtMs - nowMs);
  }
  return found;
}

test.each([10, 5, 3])("an operation each %d ms waits for nothing", (everyMs) => {
  expect(Math.max(...waits(everyMs))).toBe(0);
});

test("an operation each millisecond waits for a transaction each 25 ms", () => {
  const late = waits(1).slice(200);
  expect(Math.max(...late)).toBe(PACE_MS);
  // The one that finds nobody waiting begins a wait.
  const begun = late.filter((waitMs, at) => waitMs > (late[at - 1] ?? PACE_MS));
  expect(begun.length).toBeWithin(800 / (PACE_MS + 1), 800 / PACE_MS + 1);
});
