/**
 * Twenty tenants and a provider that mixes up their answers: `bun scripts/isolation.ts [REQUESTS] [SEED]`; 1000000
 * unless given, in rounds of 10000, each with a gateway and a seed of its own.
 */
import { openIsolationSetup } from "../test/support/isolation/setup.ts";
import { mixTenants } from "../test/support/isolation/isolation.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

const requestsDefault = 1_000_000;
const roundMax = 10_000;

if (import.meta.main) {
  const [requests = requestsDefault, first] = process.argv.slice(2).map(Number);
  const bad = await runInRounds(requests, first, roundMax, openIsolationSetup, mixTenants);
  process.exit(bad === 0 ? 0 : 1);
}
