/**
 * Sends requests of twenty tenants through a provider that mixes up their answers: `bun scripts/isolation.ts [REQUESTS] [SEED]`;
 * 1000000 unless given, in rounds of 10000, each with its own gateway and seed.
 */
import { openIsolationSetup } from "../test/support/isolation/setup.ts";
import { mixTenants } from "../test/support/isolation/isolation.ts";
import { runInRounds } from "../test/support/runInRounds.ts";

if (import.meta.main)
  await runInRounds({
    requests: 1_000_000,
    roundMax: 10_000,
    open: openIsolationSetup,
    run: mixTenants,
  });
