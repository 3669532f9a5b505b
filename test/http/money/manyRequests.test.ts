import { expect, test } from "bun:test";
import {
  concurrencyConfig,
  requestsForTenTimesTheBalance,
  requestsOfRandomCost,
} from "../../support/histories/concurrentRequests.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { amount } from "../../support/sample.ts";

const at = openBefore(["local"], ({ local }) => concurrencyConfig(local));

const timeoutMs = 60_000;
const few = amount(5, 20);
const fewer = amount(2, 5);
const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

// `bun run prove model` tries a hundred seeds of each.
test(
  "of 200 requests at once on a balance for ten exactly ten are served, and nothing is left",
  async () => {
    for (const seed of seeds(few)) {
      const { served, problems } = await requestsForTenTimesTheBalance(
        at.gateway,
        at.providers.local,
        seed,
      );
      expect([served, problems]).toEqual([10, []]);
    }
  },
  timeoutMs,
);

test(
  "1,000 requests at once of random costs never overspend a small balance",
  async () => {
    for (const seed of seeds(fewer)) {
      at.gateway.forgetFailures();
      const { served, problems } = await requestsOfRandomCost(at.gateway, at.providers.local, seed);
      expect(problems).toEqual([]);
      expect(served).toBeGreaterThan(10);
    }
  },
  timeoutMs,
);
