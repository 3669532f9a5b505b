import { expect, test } from "bun:test";
import { systemClock, Deadline, Deadlines } from "../../src/lib/clock.ts";

test("a moment that lies in the past already has passed at once, and the runtime warns of nothing", async () => {
  const warnings: string[] = [];
  const note = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", note);
  const passed = Promise.withResolvers<void>();
  new Deadline(new Deadlines(systemClock), passed.resolve).set(-5);
  await passed.promise;
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", note);
  expect(warnings).toEqual([]);
});

test("what came while the process stood still is seen before the moment counts", async () => {
  let aheadMs = 0;
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() + aheadMs };
  const passed = Promise.withResolvers<string>();
  const deadline = new Deadline(new Deadlines(clock), () => passed.resolve("passed"));
  deadline.set(20);
  // The process stops, and goes on ten seconds later: the timer is first, the event right behind it.
  aheadMs = 10_000;
  setTimeout(() => {
    deadline.clear();
    passed.resolve("in time");
  }, 60);
  expect(await passed.promise).toBe("in time");
});

test("a moment passes also after a standstill in which nothing came", async () => {
  let aheadMs = 0;
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() + aheadMs };
  const passed = Promise.withResolvers<void>();
  new Deadline(new Deadlines(clock), passed.resolve).set(20);
  aheadMs = 10_000;
  await passed.promise;
});

test("a moment has one grace only: standstill upon standstill does not put it off", async () => {
  // Each look at the clock finds two seconds gone.
  let aheadMs = 0;
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() + (aheadMs += 2000) };
  const passed = Promise.withResolvers<string>();
  new Deadline(new Deadlines(clock), () => passed.resolve("passed")).set(20);
  setTimeout(() => passed.resolve("put off"), 1500);
  expect(await passed.promise).toBe("passed");
});

test("a moment that is over is not put off by setting it anew, as a stream does with each of its pieces", async () => {
  let aheadMs = 0;
  const clock = { epochMs: () => 0, monotonicMs: () => performance.now() + aheadMs };
  const passed = Promise.withResolvers<string>();
  const endsAtMs = clock.monotonicMs() + 20;
  const deadline = new Deadline(new Deadlines(clock), () => passed.resolve("passed"));
  const setAnew = (): void => deadline.set(endsAtMs - clock.monotonicMs());
  setAnew();
  aheadMs = 10_000;
  const pieces = setInterval(setAnew, 5);
  setTimeout(() => passed.resolve("put off"), 1500);
  expect(await passed.promise).toBe("passed");
  clearInterval(pieces);
});
