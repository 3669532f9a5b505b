/**
 * Restarts three replicas one after the other behind nginx, Caddy and HAProxy, with the settings of docs/run/reverse-proxy.md and
 * under load: `bun scripts/rollingRestart.ts [ROUNDS] [CLIENTS] [DRAIN_DELAY]`; ten rounds and 24 clients of each proxy unless given.
 * Needs PostgreSQL and the three proxies. Prints what clients got. Status 1 if a request was lost or sent twice.
 */
import { runRollingRestarts } from "../test/support/fleet/rollingRestart.ts";

if (import.meta.main) {
  const [rounds = "10", clients = "24", drainDelay = "3s"] = process.argv.slice(2);
  const startedMs = performance.now();
  const run = await runRollingRestarts({
    rounds: Number(rounds),
    clients: Number(clients),
    drainDelay,
    onRound: (round) =>
      console.log(`${Math.round((performance.now() - startedMs) / 1000)} s: round ${round}`),
  });
  console.log(JSON.stringify(run, undefined, 2));
  const lost = Object.values(run.counts).reduce((sum, count) => sum + count.lost, 0);
  process.exit(lost === 0 && run.problems.length === 0 ? 0 : 1);
}
