/**
 * A gateway in use for a long time: `bun scripts/soak.ts [MINUTES] [SEED]`; 24 hours unless given. Prints a line each
 * minute, and at the end what is wrong. It needs a machine for itself: how late the event loop is, is judged too.
 */
import { drawnSeed } from "../test/support/seededRandom.ts";
import { openSoakSetup } from "../test/support/soak/setup.ts";
import { soak, type SoakStanding } from "../test/support/soak/soak.ts";

const minutesDefault = 24 * 60;
const perSecond = 200;
const reloadEveryMs = 60_000;
const lagMsMax = 20;
/** Growth per hour, after the first hour. */
const slopeMiBMax = 1;

/** Returns the problems found. */
async function soakFor(minutes: number, seed: number): Promise<readonly string[]> {
  const setup = await openSoakSetup(seed);
  try {
    const report = ({ problems, ...standing }: SoakStanding): void =>
      console.log(JSON.stringify({ seed, ...standing, problems: problems.length }));
    const seen = await soak(setup, { seconds: minutes * 60, perSecond, reloadEveryMs, report });
    report(seen);
    return [...seen.problems, ...beyondLimits(seen)];
  } finally {
    await setup.close();
  }
}

function beyondLimits({ lagMs, slopeMiB }: SoakStanding): string[] {
  const problems: string[] = [];
  if (lagMs >= lagMsMax) problems.push(`the event loop is ${lagMs} ms late`);
  if (slopeMiB !== undefined && slopeMiB >= slopeMiBMax)
    problems.push(`its memory grows by ${slopeMiB} MiB an hour`);
  return problems;
}

if (import.meta.main) {
  const [minutes = minutesDefault, seed = drawnSeed()] = process.argv.slice(2).map(Number);
  const problems = await soakFor(minutes, seed);
  for (const problem of problems) console.log(problem);
  process.exit(problems.length === 0 ? 0 : 1);
}
