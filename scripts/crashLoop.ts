/** Kills a gateway under load again and again: `bun scripts/crashLoop.ts [CYCLES]`; 100 unless given. */
import { startDemoProvider } from "../src/commands/demo/provider.ts";
import { runCrashCycle } from "../test/support/crashCycle.ts";
import { oneModel } from "../test/support/gatewayConfig.ts";
import { startGatewayProcess } from "../test/support/gatewayProcess.ts";

const cyclesDefault = 100;
const killAfterMax = 49;

/** Runs so many cycles and prints what they saw. Returns how many of them found the books wrong. */
async function crashLoop(cycles: number): Promise<number> {
  const provider = startDemoProvider({ wordDelayMs: 1 });
  const gateway = await startGatewayProcess(oneModel(provider.url));
  const seen = { cycles: 0, begun: 0, whole: 0, credits: 0, bad: 0 };
  try {
    const key = await gateway.key("alice", "1000000");
    for (; seen.cycles < cycles; seen.cycles += 1) {
      const killAfter = 1 + Math.floor(Math.random() * killAfterMax);
      const name = `cycle-${seen.cycles}`;
      const cycle = await runCrashCycle(gateway, { account: "alice", key }, { name, killAfter });
      seen.begun += cycle.begun;
      seen.whole += cycle.whole;
      seen.credits += cycle.credits;
      if (cycle.problems.length > 0) seen.bad += 1;
      for (const problem of cycle.problems) console.log(`${name}: ${problem}`);
    }
  } finally {
    await gateway.close();
    await provider.stop();
  }
  console.log(JSON.stringify(seen));
  return seen.bad;
}

if (import.meta.main) {
  const cycles = Number(process.argv[2] ?? cyclesDefault);
  process.exit((await crashLoop(cycles)) === 0 ? 0 : 1);
}
