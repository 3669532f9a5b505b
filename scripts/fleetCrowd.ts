/**
 * Two hundred requests at once on a balance for exactly ten, over three gateways: `bun scripts/fleetCrowd.ts [SEEDS] [FIRST]`;
 * 100 unless given. Needs PostgreSQL.
 */
import { openCrowdedFleet } from "../test/support/fleet/fleetCrowd.ts";

const seedsDefault = 100;

if (import.meta.main) {
  const [count = seedsDefault, first = 1] = process.argv.slice(2).map(Number);
  const startedMs = performance.now();
  const problems: string[] = [];
  {
    await using crowded = await openCrowdedFleet();
    for (let seed = first; seed < first + count; seed += 1)
      problems.push(...(await crowded.crowd(seed)));
    problems.push(...(await crowded.fleet.problems()));
  }
  for (const problem of problems) console.log(problem);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(JSON.stringify({ seeds: count, first, problems: problems.length, seconds }));
  process.exit(problems.length === 0 ? 0 : 1);
}
