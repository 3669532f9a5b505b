import { attacks } from "../attacks/attacks.ts";
import { answersFuzz } from "../fuzzAnswers/answersFuzz.ts";
import { httpFuzz } from "../fuzz/httpFuzz.ts";
import { isolation } from "../isolation/isolation.ts";
import { leavers } from "../leavers/leavers.ts";
import { soak } from "../soak/soak.ts";
import type { Script } from "./script.ts";

/** All that is proved at random. `test/e2e/world.test.ts` runs their short forms, `bun run prove NAME` the long ones. */
export const scripts: readonly Script[] = [
  httpFuzz,
  answersFuzz,
  isolation,
  leavers,
  ...attacks,
  soak,
];
