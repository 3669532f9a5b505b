import { expect, test } from "bun:test";
import { openCrowdedFleet } from "../../support/fleet/fleetCrowd.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { isLong } from "../../support/sample.ts";

const seeds = isLong ? [1, 2, 3, 4, 5] : [1, 2];

describePostgres("over three replicas", () => {
  // `bun scripts/fleetCrowd.ts` tries a hundred seeds.
  test(`of 200 requests at once on a balance for ten exactly ten are served (${seeds.length} seeds)`, async () => {
    await using crowded = await openCrowdedFleet();
    const problems: string[] = [];
    for (const seed of seeds) problems.push(...(await crowded.crowd(seed)));
    expect([...problems, ...(await crowded.fleet.problems())]).toEqual([]);
  }, 120_000);
});
