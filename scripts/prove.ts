/**
 * Proves at random, for long: `bun run prove NAME [AMOUNT] [SEED]`. A part of a name runs all that have it: `attack` all
 * attacks, `holds` the model of holds. Without a name it runs all tests in their long form. Prints the seed first, so that
 * the run can be repeated, and what each round counted. Status 1 if anything is wrong. `TOLLGATE_BIN` names another executable.
 */
import { drawnSeed } from "../test/support/seededRandom.ts";
import type { Script } from "../test/support/world/script.ts";
import { scripts } from "../test/support/world/scripts.ts";

const print = (figures: object): void => console.log(JSON.stringify(figures));

/** Returns the number of problems. */
async function prove(script: Script, amount: number, firstSeed: number): Promise<number> {
  const { name, unit, roundMax = amount, missing } = script;
  if (missing !== undefined) throw new Error(`${name} cannot run: ${missing}`);
  print({ name, [unit]: amount, seed: firstSeed });
  let bad = 0;
  for (let done = 0, seed = firstSeed; done < amount; done += roundMax, seed += 1) {
    const round = { seed, amount: Math.min(roundMax, amount - done), report: print };
    const { problems, ...figures } = await script.run(round);
    bad += problems.length;
    for (const problem of problems) console.log(problem);
    print({ ...figures, bad: problems.length });
  }
  return bad;
}

async function main([name, amount, seed]: readonly string[]): Promise<number> {
  if (name === undefined) {
    const env = { ...process.env, TOLLGATE_LONG: "1" };
    const stdio = ["ignore", "inherit", "inherit"] as const;
    return await Bun.spawn([process.execPath, "scripts/ci.ts"], { env, stdio: [...stdio] }).exited;
  }
  const all = Object.values(scripts).flat();
  const chosen = all.filter((one) => one.name === name || one.name.split(": ").includes(name));
  if (chosen.length === 0)
    throw new Error(`there is no ${name}: ${all.map((one) => one.name).join(", ")}`);
  let bad = 0;
  for (const script of chosen) {
    const [, , long] = script.amounts;
    bad += await prove(script, Number(amount ?? long), Number(seed ?? drawnSeed()));
  }
  return bad;
}

if (import.meta.main) {
  const bad = await main(process.argv.slice(2)).catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  });
  process.exit(bad === 0 ? 0 : 1);
}
