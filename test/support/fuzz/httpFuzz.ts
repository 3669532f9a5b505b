import { rowsAt } from "../store/gatewayDatabase.ts";
import { inWorld } from "../world/script.ts";
import { runConnection } from "./connectionRun.ts";
import { openFuzz, type FuzzSetup } from "./setup.ts";

/** Each must occur, or the run did not test it. */
const everyStatus = ["200", "400", "401", "402", "404", "429", "bare 400", "bare 431", "bare 505"];

export const httpFuzz = inWorld<FuzzSetup>({
  name: "httpFuzz",
  proves:
    "valid, odd and broken, are each answered as the contract demands, and leave nothing open",
  unit: "requests",
  amounts: [2500, 14_000, 10_000_000],
  roundMax: 50_000,
  atOnce: 32,
  open: openFuzz,
  play: runConnection,
  async check({ world, targets }) {
    await world.expectAllFree(targets.rich);
    const cancelled = "SELECT id FROM requests WHERE status = 'cancelled'";
    world.count("cancelled", (await rowsAt(world.gateway.place, cancelled)).length);
    return [];
  },
  least: (requests) => ({
    ...Object.fromEntries(everyStatus.map((status) => [status, 1])),
    charged: requests / 20,
    cancelled: requests / 1000,
  }),
});
