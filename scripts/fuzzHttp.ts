/**
 * Sends requests that are sound, odd or broken to the compiled gateway: `bun scripts/fuzzHttp.ts [REQUESTS] [SEED]`;
 * 10000000 unless given, in rounds of 50000, each with a gateway and a seed of its own.
 */
import { openFuzzBench } from "../test/support/fuzz/bench.ts";
import { fuzzHttp } from "../test/support/fuzz/httpFuzz.ts";
import { inRounds } from "../test/support/rounds.ts";

const requestsDefault = 10_000_000;
const roundMax = 50_000;

/** Each round has a gateway of its own. */
async function play(round: { seed: number; requests: number }): ReturnType<typeof fuzzHttp> {
  const bench = await openFuzzBench();
  try {
    return await fuzzHttp(bench, round);
  } finally {
    await bench.close();
  }
}

if (import.meta.main) {
  const [requests = requestsDefault, first] = process.argv.slice(2).map(Number);
  process.exit((await inRounds(requests, first, roundMax, play)) === 0 ? 0 : 1);
}
