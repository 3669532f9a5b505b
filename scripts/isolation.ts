/**
 * Twenty tenants and a provider that mixes up their answers: `bun scripts/isolation.ts [REQUESTS] [SEED]`; 1000000
 * unless given, in rounds of 10000, each with a gateway and a seed of its own.
 */
import { openIsolationBench } from "../test/support/isolation/bench.ts";
import { mixTenants } from "../test/support/isolation/isolation.ts";
import { inRounds } from "../test/support/rounds.ts";

const requestsDefault = 1_000_000;
const roundMax = 10_000;

if (import.meta.main) {
  const [requests = requestsDefault, first] = process.argv.slice(2).map(Number);
  const bad = await inRounds(requests, first, roundMax, openIsolationBench, mixTenants);
  process.exit(bad === 0 ? 0 : 1);
}
