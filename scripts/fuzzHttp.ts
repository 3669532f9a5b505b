/**
 * Sends requests that are sound, odd or broken to the compiled gateway: `bun scripts/fuzzHttp.ts [REQUESTS] [SEED]`;
 * 10000000 unless given, in rounds of 50000, each with a gateway and a seed of its own.
 */
import { openFuzzSetup } from "../test/support/fuzz/setup.ts";
import { fuzzHttp } from "../test/support/fuzz/httpFuzz.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

const requestsDefault = 10_000_000;
const roundMax = 50_000;

if (import.meta.main) {
  const [requests = requestsDefault, first] = process.argv.slice(2).map(Number);
  const bad = await runInRounds(requests, first, roundMax, openFuzzSetup, fuzzHttp);
  process.exit(bad === 0 ? 0 : 1);
}
