/**
 * Concurrent requests on one balance: `bun scripts/concurrentRequests.ts [SEEDS] [FIRST]`; 100 unless given. Two hundred
 * at once on a balance for exactly ten, and a thousand of random cost on a small balance.
 */
import {
  concurrencyConfig,
  requestsForTenTimesTheBalance,
  requestsOfRandomCost,
} from "../test/support/histories/concurrentRequests.ts";
import { startProvider } from "../test/support/provider/scriptedProvider.ts";
import { openTestApp } from "../test/support/gateway/testApp.ts";

const seedsDefault = 100;
const loads = { requestsForTenTimesTheBalance, requestsOfRandomCost };

/** Prints the totals for each kind of load. Returns the number of seeds with problems. */
async function tryLoads(count: number, first: number): Promise<number> {
  let bad = 0;
  for (const [name, send] of Object.entries(loads)) {
    const provider = startProvider();
    const gateway = await openTestApp(concurrencyConfig(`http://127.0.0.1:${provider.port}/v1`));
    gateway.auditor.listenTo(provider);
    const seen = { load: name, first, seeds: 0, served: 0, bad: 0 };
    try {
      for (; seen.seeds < count; seen.seeds += 1) {
        const { served, problems } = await send(gateway, provider, first + seen.seeds);
        seen.served += served;
        seen.bad += problems.length > 0 ? 1 : 0;
        for (const problem of problems) console.log(problem);
      }
    } finally {
      await gateway.close();
      provider.stop();
    }
    bad += seen.bad;
    console.log(JSON.stringify(seen));
  }
  return bad;
}

if (import.meta.main) {
  const [count = seedsDefault, first = 1] = process.argv.slice(2).map(Number);
  process.exit((await tryLoads(count, first)) === 0 ? 0 : 1);
}
