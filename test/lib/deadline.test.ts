import { expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { createDeadline } from "../../src/lib/deadline.ts";

test("a moment that lies in the past already has passed at once, and the runtime warns of nothing", async () => {
  const warnings: string[] = [];
  const note = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", note);
  const passed = Promise.withResolvers<void>();
  createDeadline(systemClock, passed.resolve).set(-5);
  await passed.promise;
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", note);
  expect(warnings).toEqual([]);
});
