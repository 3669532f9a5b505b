import { describe, expect, test } from "bun:test";
import { balancerMissing, runFleetFaults } from "../../support/fleet/fleetFaults.ts";
import { describePostgres, describeRedis } from "../../support/servers/describeServers.ts";
import { amount } from "../../support/sample.ts";

const seconds = amount(12, 20);
if (balancerMissing !== undefined)
  process.stderr.write(`NOT RUN: the faults of a fleet: ${balancerMissing}\n`);

describePostgres("three replicas under load", () => {
  describeRedis("whose parts are killed, stopped, locked, cut off and restarted", () => {
    describe.skipIf(balancerMissing !== undefined)("behind HAProxy", () => {
      // `bun scripts/fleetFaults.ts` does it for ten minutes.
      test("charge each whole answer exactly once, nothing that failed, and lose no request that a fault does not harm", async () => {
        const run = await runFleetFaults({ seconds, seed: 4, maxStopMs: 5000 });
        expect(run.problems).toEqual([]);
        expect(run.whole).toBeGreaterThan(amount(50, 100));
        expect(run.credits).toBeGreaterThan(0);
      }, 240_000);
    });
  });
});
