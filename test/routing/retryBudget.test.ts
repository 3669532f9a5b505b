import { expect, test } from "bun:test";
import { createRetryBudget } from "../../src/routing/attempts.ts";

test("releases a retry slot once", () => {
  const budget = createRetryBudget(() => undefined);
  const places = [1, 2, 3].map(() => budget.take(0));
  expect(budget.take(0)).toBeUndefined();
  places[0]?.();
  expect(() => places[0]?.()).toThrow("released twice");
  expect(budget.take(0)).toBeDefined();
  expect(budget.take(0)).toBeUndefined();
});
