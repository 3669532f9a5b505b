/** Kills a gateway under load again and again: `bun scripts/crashLoop.ts [CYCLES] [SEED]`; 1000 unless given. */
import { drawnSeed, seededRandom } from "../test/support/seededRandom.ts";
import { runCrashCycle } from "../test/support/binary/crashCycle.ts";
import { startGatewayProcess } from "../test/support/binary/gatewayProcess.ts";
import { startMixedProviders } from "../test/support/binary/mixedProviders.ts";

const cyclesDefault = 1000;
const killAfterMax = 49;
/** The number of cycles between two lines of progress. */
const progressEvery = 100;

/** Runs the cycles and prints the totals. Returns the number of cycles after which the audits found problems. */
async function crashLoop(cycles: number, seed: number): Promise<number> {
  const random = seededRandom(seed);
  const providers = startMixedProviders();
  const sections = { database: { path: "tollgate.db", durability: "power" } };
  const gateway = await startGatewayProcess(providers.config(sections));
  const seen = {
    seed,
    cycles: 0,
    begun: 0,
    whole: 0,
    credits: 0,
    redemptions: 0,
    bad: 0,
    seconds: 0,
  };
  const startedMs = performance.now();
  const report = (): void => {
    seen.seconds = Math.round((performance.now() - startedMs) / 1000);
    console.log(JSON.stringify(seen));
  };
  report();
  try {
    const key = await gateway.key("alice", "1000000");
    while (seen.cycles < cycles) {
      const killAfter = 1 + random.below(killAfterMax);
      const name = `cycle-${seen.cycles}`;
      const cycle = await runCrashCycle(gateway, { account: "alice", key }, { name, killAfter });
      seen.cycles += 1;
      seen.begun += cycle.begun;
      seen.whole += cycle.whole;
      seen.credits += cycle.credits;
      seen.redemptions += cycle.redemptions;
      if (cycle.problems.length > 0) seen.bad += 1;
      for (const problem of cycle.problems) console.log(`${name}: ${problem}`);
      if (seen.cycles % progressEvery === 0) report();
    }
  } finally {
    await gateway.close();
    await providers.stop();
  }
  report();
  return seen.bad;
}

if (import.meta.main) {
  const [cycles, seed] = process.argv.slice(2).map(Number);
  const bad = await crashLoop(cycles ?? cyclesDefault, seed ?? drawnSeed());
  process.exit(bad === 0 ? 0 : 1);
}
