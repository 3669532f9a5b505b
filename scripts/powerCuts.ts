/**
 * Cuts the power under a gateway again and again: `bun scripts/powerCuts.ts [CUTS] [SEED]`; 100 unless given. With
 * `durability = "power"` no acknowledged charge may be lost. With "process" some must be lost: this shows that the cuts work.
 */
import { startLoadProvider } from "../test/support/provider/loadProvider.ts";
import { drawnSeed, seededRandom, seedMax } from "../test/support/seededRandom.ts";
import { cCompiler, printNotRun } from "../test/support/disk/faultyDisk.ts";
import { cutPower, startGatewayOnDisk } from "../test/support/disk/powerCut.ts";

const cutsDefault = 100;
const atCallMax = 450;

/** Runs the cuts and prints the totals. Returns whether the losses are as expected for this durability. */
async function powerCuts(
  durability: "power" | "process",
  cuts: number,
  seed: number,
): Promise<boolean> {
  const random = seededRandom(seed);
  const provider = startLoadProvider({ wordDelayMs: 0 });
  const on = await startGatewayOnDisk(provider.url, durability);
  const seen = { durability, seed, cuts: 0, whole: 0, lost: 0, bad: 0 };
  try {
    for (; seen.cuts < cuts; seen.cuts += 1) {
      const atCall = 1 + random.below(atCallMax);
      const { whole, lost, problems } = await cutPower(on, { atCall, seed: random.below(seedMax) });
      seen.whole += whole;
      seen.lost += lost.length;
      seen.bad += problems.length > 0 ? 1 : 0;
      for (const problem of problems) console.log(`cut ${seen.cuts}: ${problem}`);
    }
  } finally {
    await on.close();
    provider.stop();
  }
  console.log(JSON.stringify(seen));
  return seen.bad === 0 && (durability === "power" ? seen.lost === 0 : seen.lost > 0);
}

if (import.meta.main) {
  if (cCompiler() === undefined) {
    printNotRun("power cuts");
    process.exit(1);
  }
  const [cuts = cutsDefault, seed = drawnSeed()] = process.argv.slice(2).map(Number);
  const isSafe = await powerCuts("power", cuts, seed);
  const isSeeing = await powerCuts("process", cuts, seed);
  process.exit(isSafe && isSeeing ? 0 : 1);
}
