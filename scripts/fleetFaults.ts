/**
 * Breaks a fleet of three gateways under load at random: `bun scripts/fleetFaults.ts [SECONDS] [SEED]`; ten minutes unless
 * given. Needs PostgreSQL, Redis and HAProxy. Prints each fault, and at the end what is wrong.
 */
import { runFleetFaults } from "../test/support/fleet/fleetFaults.ts";
import { drawnSeed } from "../test/support/seededRandom.ts";

const secondsDefault = 600;

if (import.meta.main) {
  const [seconds = secondsDefault, seed = drawnSeed()] = process.argv.slice(2).map(Number);
  const startedMs = performance.now();
  const run = await runFleetFaults({
    seconds,
    seed,
    onFault: (fault) =>
      console.log(`${Math.round((performance.now() - startedMs) / 1000)} s: ${fault}`),
  });
  console.log(JSON.stringify(run, undefined, 2));
  process.exit(run.problems.length === 0 ? 0 : 1);
}
