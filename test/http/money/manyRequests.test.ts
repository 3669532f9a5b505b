import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import {
  concurrencyConfig,
  requestsForTenTimesTheBalance,
  requestsOfRandomCost,
} from "../../support/histories/concurrentRequests.ts";
import { startProvider, type ScriptedProvider } from "../../support/provider/scriptedProvider.ts";
import { openTestApp, type TestApp } from "../../support/gateway/testApp.ts";

let provider: ScriptedProvider;
let gateway: TestApp;
beforeAll(async () => {
  provider = startProvider();
  gateway = await openTestApp(concurrencyConfig(`http://127.0.0.1:${provider.port}/v1`));
  gateway.auditor.listenTo(provider);
});
afterEach(() => gateway.expectAuditPasses());
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

const timeoutMs = 60_000;
const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

// `bun scripts/concurrentRequests.ts` tries a hundred seeds of each.
test(
  "of 200 requests at once on a balance for ten exactly ten are served, and nothing is left (20 seeds)",
  async () => {
    for (const seed of seeds(20)) {
      const { served, problems } = await requestsForTenTimesTheBalance(gateway, provider, seed);
      expect([served, problems]).toEqual([10, []]);
    }
  },
  timeoutMs,
);

test(
  "1,000 requests at once of random costs never overspend a small balance (5 seeds)",
  async () => {
    for (const seed of seeds(5)) {
      gateway.forgetFailures();
      const { served, problems } = await requestsOfRandomCost(gateway, provider, seed);
      expect(problems).toEqual([]);
      expect(served).toBeGreaterThan(10);
    }
  },
  timeoutMs,
);
