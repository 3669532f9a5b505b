import { expect, test } from "bun:test";
import { openCrowdedFleet } from "../../support/fleet/fleetCrowd.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";

describePostgres("over three replicas", () => {
  // `bun scripts/fleetCrowd.ts` tries a hundred seeds.
  test("of 200 requests at once on a balance for ten exactly ten are served (5 seeds)", async () => {
    await using crowded = await openCrowdedFleet();
    const problems: string[] = [];
    for (const seed of [1, 2, 3, 4, 5]) problems.push(...(await crowded.crowd(seed)));
    expect([...problems, ...(await crowded.fleet.problems())]).toEqual([]);
  }, 120_000);
});
