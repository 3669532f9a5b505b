import { expect, test } from "bun:test";
import { ClientBackpressure } from "../../src/gateway/streaming/backpressure.ts";

function paceAt(): { pace: ClientBackpressure; goOn: (forMs: number) => void } {
  let nowMs = 0;
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs };
  const pace = new ClientBackpressure(clock, () => {});
  return { pace, goOn: (forMs) => void (nowMs += forMs) };
}

test("a failure amid a pause that lasts is the client's doing", () => {
  const { pace, goOn } = paceAt();
  goOn(60_000);
  pace.pause();
  goOn(999);
  expect(pace.explains("closed")).toBe(false);
  goOn(1);
  expect(pace.explains("closed")).toBe(true);
  pace.stop();
});

test("a pause within a pause ends neither the first nor counts twice", () => {
  const { pace, goOn } = paceAt();
  pace.pause();
  goOn(600);
  pace.pause();
  goOn(600);
  pace.resume();
  expect([pace.isPausing, pace.explains("closed")]).toEqual([true, true]);
  pace.resume();
  expect([pace.isPausing, pace.explains("closed")]).toEqual([false, true]);
  // What comes of the provider now, it sent because it is well.
  pace.goesOn();
  goOn(12_000);
  expect([pace.explains("closed"), pace.explains("timeout")]).toEqual([false, false]);
  pace.stop();
});

test("a provider that gave up amid a pause is found out behind what had waited in buffers", () => {
  const { pace, goOn } = paceAt();
  pace.pause();
  goOn(6000);
  pace.resume();
  // The client takes in what waited, with a short pause here and there.
  for (let piece = 0; piece < 20; piece += 1) {
    pace.goesOn();
    goOn(20);
    pace.pause();
    goOn(5);
    pace.resume();
  }
  pace.goesOn();
  expect(["cut", "closed", "timeout"].map((outcome) => pace.explains(outcome))).toEqual([
    true,
    true,
    true,
  ]);
  expect(["answer", "runaway"].map((outcome) => pace.explains(outcome))).toEqual([false, false]);
  goOn(2000);
  expect(pace.explains("cut")).toBe(false);
  pace.stop();
});

test.each([
  [1, 4000, true],
  [1, 4600, false],
  [25, 1000, true],
  [25, 2100, false],
])(
  "a cut behind pieces that come every %i ms, %i ms after a long pause, is the client's: %j",
  (everyMs, afterMs, isClients) => {
    const { pace, goOn } = paceAt();
    pace.pause();
    goOn(60_000);
    pace.resume();
    for (let passedMs = 0; passedMs < afterMs; passedMs += everyMs) {
      goOn(everyMs);
      pace.goesOn();
    }
    expect(pace.explains("closed")).toBe(isClients);
    pace.stop();
  },
);

test.each([
  ["hardly reads, however short its pauses, has a cut for its own", 500, 50, true],
  ["reads half of the time has none", 500, 500, false],
  ["hardly pauses has none", 100, 900, false],
])("a client that %s", (_, pausesMs, readsMs, isClients) => {
  const { pace, goOn } = paceAt();
  for (let round = 0; round < 100; round += 1) {
    pace.pause();
    goOn(pausesMs);
    pace.resume();
    pace.goesOn();
    goOn(readsMs);
  }
  expect(pace.explains("cut")).toBe(isClients);
  pace.stop();
});
