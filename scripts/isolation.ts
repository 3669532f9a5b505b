/**
 * Twenty tenants and a provider that mixes up their answers: `bun scripts/isolation.ts [REQUESTS] [SEED]`; 1000000
 * unless given, in rounds of 10000, each with a gateway and a seed of its own.
 */
import { openIsolationBench } from "../test/support/isolation/bench.ts";
import { mixTenants } from "../test/support/isolation/isolation.ts";
import { inRounds } from "../test/support/rounds.ts";

const requestsDefault = 1_000_000;
const roundMax = 10_000;

/** Each round has a gateway of its own. */
async function play(round: { seed: number; requests: number }): ReturnType<typeof mixTenants> {
  const bench = await openIsolationBench(round.seed);
  try {
    return await mixTenants(bench, round);
  } finally {
    await bench.close();
  }
}

if (import.meta.main) {
  const [requests = requestsDefault, first] = process.argv.slice(2).map(Number);
  process.exit((await inRounds(requests, first, roundMax, play)) === 0 ? 0 : 1);
}
