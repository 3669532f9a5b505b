import { attacks } from "../attacks/attacks.ts";
import { crash } from "../binary/crash.ts";
import { observer } from "../binary/observer.ts";
import { processCrowd } from "../binary/processCrowd.ts";
import { processKills } from "../binary/processKills.ts";
import { slowReaders } from "../binary/slowReaders.ts";
import { diskErrors } from "../disk/diskError.ts";
import { powerCuts } from "../disk/powerCut.ts";
import { fleetCrowd } from "../fleet/fleetCrowd.ts";
import { fleetFaults } from "../fleet/fleetFaults.ts";
import { rollingRestart } from "../fleet/rollingRestart.ts";
import { httpFuzz } from "../fuzz/httpFuzz.ts";
import { answersFuzz } from "../fuzzAnswers/answersFuzz.ts";
import { models } from "../histories/models.ts";
import { isolation } from "../isolation/isolation.ts";
import { leavers } from "../leavers/leavers.ts";
import { soak } from "../soak/soak.ts";
import type { Script } from "./script.ts";

/**
 * All that is proved at random. The tests of `test/e2e/world` run the short forms of a group each, and `bun run prove NAME`
 * the long ones.
 */
export const scripts = {
  crashes: [crash, processKills, processCrowd, ...powerCuts, diskErrors],
  fleets: [fleetCrowd, fleetFaults, rollingRestart],
  models,
  requests: [httpFuzz, answersFuzz],
  tenants: [isolation, leavers, ...attacks],
  use: [soak, observer, slowReaders],
} satisfies Readonly<Record<string, readonly Script[]>>;
