import { inBothForms } from "../generation/ways.ts";
import type { Script } from "../world/script.ts";
import { scriptOf, type Attack } from "./attack.ts";
import { crowdingAttacks } from "./crowding.ts";
import { leavingAttacks } from "./leaving.ts";
import { provokingAttacks } from "./provoking.ts";
import { asksFor } from "./victim.ts";

/** The victim alone, for its latencies. */
const none: Attack = {
  name: "no attack",
  gateway: {},
  victim: asksFor(inBothForms("chat/completions", "gpt")),
  isPaid: false,
  run: async ({ isOver }) => {
    while (!isOver()) await Bun.sleep(100);
  },
};

/** They take the time that CI has. */
const short = ["500", "403 video", "20,000 pipelined requests", "wrong voucher codes"];

export const attacks: readonly Script[] = [
  none,
  ...provokingAttacks,
  ...crowdingAttacks,
  ...leavingAttacks,
].map((attack) => scriptOf(attack, short.includes(attack.name)));
