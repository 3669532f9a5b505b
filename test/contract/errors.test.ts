import { expect, test } from "bun:test";
import {
  allProvidersUnavailable,
  rateLimitExceeded,
  serviceUnavailable,
} from "../../src/contract/errors.ts";

test.each([
  [0, 1],
  [-5, 1],
  [0.2, 1],
  [1, 1],
  [1.001, 2],
  [59.5, 60],
  [Number.NaN, 1],
  [Infinity, 1],
])("a wait of %p seconds is sent as %p", (given, sent) => {
  expect(rateLimitExceeded(given * 1000).retryAfterSeconds).toBe(sent);
  expect(allProvidersUnavailable(given * 1000).retryAfterSeconds).toBe(sent);
});

test("the cause of our own fault is kept for the log, and stays out of the body", () => {
  const cause = new Error("disk full");
  const error = serviceUnavailable(cause);
  expect(error.cause).toBe(cause);
  expect(JSON.stringify(error.toBody())).not.toContain("disk");
});
