/**
 * Twenty tenants and a provider that mixes up their answers: `bun scripts/isolation.ts [REQUESTS] [SEED]`; 1000000
 * unless given, in rounds of 10000, each with a gateway and a seed of its own.
 */
import { openIsolationBench } from "../test/support/isolation/bench.ts";
import { mixTenants } from "../test/support/isolation/isolation.ts";

const requestsDefault = 1_000_000;
const roundMax = 10_000;
const seedMax = 2 ** 31;

/** Prints what each round saw. Returns how many things went wrong. */
async function isolate(requests: number, first: number): Promise<number> {
  let bad = 0;
  for (let sent = 0, seed = first; sent < requests; sent += roundMax, seed += 1) {
    const bench = await openIsolationBench(seed);
    try {
      const round = { seed, requests: Math.min(roundMax, requests - sent) };
      const { problems, ...seen } = await mixTenants(bench, round);
      bad += problems.length;
      for (const problem of problems) console.log(problem);
      console.log(JSON.stringify({ ...seen, bad: problems.length }));
    } finally {
      await bench.close();
    }
  }
  return bad;
}

if (import.meta.main) {
  const [requests, seed] = process.argv.slice(2).map(Number);
  const first = seed ?? Math.floor(Math.random() * seedMax);
  console.log(JSON.stringify({ seed: first }));
  process.exit((await isolate(requests ?? requestsDefault, first)) === 0 ? 0 : 1);
}
