import { expect, test } from "bun:test";
import { watchPace, type ClientPace } from "../../src/gateway/clientPace.ts";

function paceAt(): { pace: ClientPace; goOn: (forMs: number) => void } {
  let nowMs = 0;
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs };
  const pace = watchPace(clock, () => {});
  return { pace, goOn: (forMs) => void (nowMs += forMs) };
}

test("a failure amid a pause that lasts is the client's doing", () => {
  const { pace, goOn } = paceAt();
  goOn(60_000);
  pace.pauses();
  goOn(999);
  expect(pace.explains("closed")).toBe(false);
  goOn(1);
  expect(pace.explains("closed")).toBe(true);
  pace.stop();
});

test("a pause within a pause ends neither the first nor counts twice", () => {
  const { pace, goOn } = paceAt();
  pace.pauses();
  goOn(600);
  pace.pauses();
  goOn(600);
  pace.resumes();
  expect([pace.isPausing, pace.explains("closed")]).toEqual([true, true]);
  pace.resumes();
  expect([pace.isPausing, pace.explains("closed")]).toEqual([false, true]);
  // What comes of the provider now, it sent because it is well.
  pace.goesOn();
  goOn(12_000);
  expect([pace.explains("closed"), pace.explains("timeout")]).toEqual([false, false]);
  pace.stop();
});
