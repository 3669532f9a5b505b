/**
 * Sends requests that are sound, odd or broken to the compiled gateway: `bun scripts/fuzzHttp.ts [REQUESTS] [SEED]`;
 * 10000000 unless given, in rounds of 50000, each with a gateway and a seed of its own.
 */
import { openFuzzBench } from "../test/support/fuzz/bench.ts";
import { fuzzHttp } from "../test/support/fuzz/httpFuzz.ts";

const requestsDefault = 10_000_000;
const roundMax = 50_000;
const seedMax = 2 ** 31;

/** Prints what each round saw. Returns how many things went wrong. */
async function fuzz(requests: number, first: number): Promise<number> {
  let bad = 0;
  for (let sent = 0, seed = first; sent < requests; sent += roundMax, seed += 1) {
    const bench = await openFuzzBench();
    try {
      const round = { seed, requests: Math.min(roundMax, requests - sent) };
      const { problems, ...seen } = await fuzzHttp(bench, round);
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
  process.exit((await fuzz(requests ?? requestsDefault, first)) === 0 ? 0 : 1);
}
