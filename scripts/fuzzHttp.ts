/**
 * Sends valid, odd and broken requests to the compiled gateway: `bun scripts/fuzzHttp.ts [REQUESTS] [SEED]`;
 * 10000000 unless given, in rounds of 50000, each with its own gateway and seed.
 */
import { openFuzzSetup } from "../test/support/fuzz/setup.ts";
import { fuzzHttp } from "../test/support/fuzz/httpFuzz.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

if (import.meta.main)
  await runInRounds({ requests: 10_000_000, roundMax: 50_000, open: openFuzzSetup, run: fuzzHttp });
