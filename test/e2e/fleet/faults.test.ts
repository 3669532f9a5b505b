import { expect, test } from "bun:test";
import { runFleetFaults } from "../../support/fleet/fleetFaults.ts";
import { describePostgres, describeRedis } from "../../support/servers/describeServers.ts";

const seconds = 20;

describePostgres("three replicas under load", () => {
  describeRedis("whose parts are killed, stopped, cut off and restarted", () => {
    // `bun scripts/fleetFaults.ts` does it for ten minutes.
    test("charge each whole answer exactly once, nothing that failed, and keep nothing reserved", async () => {
      const run = await runFleetFaults({ seconds, seed: 4, maxStopMs: 5000 });
      expect(run.problems).toEqual([]);
      expect(run.whole).toBeGreaterThan(100);
      expect(run.credits).toBeGreaterThan(0);
    }, 240_000);
  });
});
