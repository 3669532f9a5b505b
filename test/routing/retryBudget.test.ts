import { expect, test } from "bun:test";
import { createRetryBudget } from "../../src/routing/dispatch.ts";

test("a place for a third attempt is given back once, and then to one request", () => {
  const budget = createRetryBudget(() => undefined);
  const places = [1, 2, 3].map(() => budget.take(0));
  expect(budget.take(0)).toBeUndefined();
  places[0]?.();
  expect(() => places[0]?.()).toThrow("given back twice");
  expect(budget.take(0)).toBeDefined();
  expect(budget.take(0)).toBeUndefined();
});
