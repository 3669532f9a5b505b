/**
 * Sends requests that are sound, odd or broken to the compiled gateway: `bun scripts/fuzzHttp.ts [REQUESTS] [SEED]`;
 * 10000000 unless given, in rounds of 50000, each with a gateway and a seed of its own.
 */
import { openFuzzBench } from "../test/support/fuzz/bench.ts";
import { fuzzHttp } from "../test/support/fuzz/httpFuzz.ts";
import { fuzzInRounds } from "../test/support/fuzz/rounds.ts";

const requestsDefault = 10_000_000;
const roundMax = 50_000;

if (import.meta.main) {
  const rounds = { all: requestsDefault, roundMax, print: console.log };
  await fuzzInRounds(rounds, async (seed, requests) => {
    const bench = await openFuzzBench();
    try {
      return await fuzzHttp(bench, { seed, requests });
    } finally {
      await bench.close();
    }
  });
}
