import { isolation } from "../isolation/isolation.ts";
import { soak } from "../soak/soak.ts";
import type { Script } from "./script.ts";

/** All that is proved at random. `test/e2e/world.test.ts` runs their short forms, `bun run prove NAME` the long ones. */
export const scripts: readonly Script[] = [isolation, soak];
