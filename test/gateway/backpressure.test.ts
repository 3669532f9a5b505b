import { expect, test } from "bun:test";
import { Deadlines } from "../../src/lib/clock.ts";
import { ClientBackpressure } from "../../src/gateway/streaming/backpressure.ts";

function backpressureAt(): { backpressure: ClientBackpressure; advance: (forMs: number) => void } {
  let nowMs = 0;
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs };
  const backpressure = new ClientBackpressure(new Deadlines(clock), () => {});
  return { backpressure, advance: (forMs) => void (nowMs += forMs) };
}

test("a failure during a pause of a second is attributed to the client", () => {
  const { backpressure, advance } = backpressureAt();
  advance(60_000);
  backpressure.pause();
  advance(999);
  expect(backpressure.causedFailure("closed")).toBe(false);
  advance(1);
  expect(backpressure.causedFailure("closed")).toBe(true);
  backpressure.stop();
});

test("a nested pause neither ends the outer one nor counts twice", () => {
  const { backpressure, advance } = backpressureAt();
  backpressure.pause();
  advance(600);
  backpressure.pause();
  advance(600);
  backpressure.resume();
  expect([backpressure.isPausing, backpressure.causedFailure("closed")]).toEqual([true, true]);
  backpressure.resume();
  expect([backpressure.isPausing, backpressure.causedFailure("closed")]).toEqual([false, true]);
  // What comes of the provider now, it sent because it is well.
  backpressure.onData();
  advance(12_000);
  expect(backpressure.causedFailure("closed")).toBe(false);
  backpressure.stop();
});

test("a provider that gave up during a pause is detected after the buffered data", () => {
  const { backpressure, advance } = backpressureAt();
  backpressure.pause();
  advance(6000);
  backpressure.resume();
  // The client takes in what waited, with a short pause here and there.
  for (let piece = 0; piece < 20; piece += 1) {
    backpressure.onData();
    advance(20);
    backpressure.pause();
    advance(5);
    backpressure.resume();
  }
  backpressure.onData();
  expect(
    ["incomplete answer", "closed"].map((outcome) => backpressure.causedFailure(outcome)),
  ).toEqual([true, true]);
  expect(
    ["invalid answer", "endless answer"].map((outcome) => backpressure.causedFailure(outcome)),
  ).toEqual([false, false]);
  advance(2000);
  expect(backpressure.causedFailure("incomplete answer")).toBe(false);
  backpressure.stop();
});

test.each([
  [1, 4000, true],
  [1, 4600, false],
  [25, 1000, true],
  [25, 2100, false],
])(
  "a cut after chunks every %i ms, %i ms after a long pause, is attributed to the client: %j",
  (everyMs, afterMs, isClients) => {
    const { backpressure, advance } = backpressureAt();
    backpressure.pause();
    advance(60_000);
    backpressure.resume();
    for (let passedMs = 0; passedMs < afterMs; passedMs += everyMs) {
      advance(everyMs);
      backpressure.onData();
    }
    expect(backpressure.causedFailure("closed")).toBe(isClients);
    backpressure.stop();
  },
);

test.each([
  ["hardly reads, however short its pauses, has a cut for its own", 500, 50, true],
  ["reads half of the time has none", 500, 500, false],
  ["hardly pauses has none", 100, 900, false],
])("a client that %s", (_, pausesMs, readsMs, isClients) => {
  const { backpressure, advance } = backpressureAt();
  for (let round = 0; round < 100; round += 1) {
    backpressure.pause();
    advance(pausesMs);
    backpressure.resume();
    backpressure.onData();
    advance(readsMs);
  }
  expect(backpressure.causedFailure("incomplete answer")).toBe(isClients);
  backpressure.stop();
});
