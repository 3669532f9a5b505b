import { expect, test } from "bun:test";
import { runAttack } from "../support/attacks/attack.ts";
import { attacks, problemsOf } from "../support/attacks/attacks.ts";
import { amount } from "../support/sample.ts";

const seconds = amount(3, 4);
const timeoutMs = 120_000;
const short = ["500", "403 video", "20,000 pipelined requests", "wrong voucher codes"];

// `bun scripts/attackTenant.ts` runs all attacks, for longer.
test.each(
  attacks.filter(({ name }) => short.includes(name)).map((attack) => [attack.name, attack]),
)(
  "a calm tenant gets all of its answers while another one attacks: %s",
  async (_, attack) => {
    const seen = await runAttack(attack, seconds, 1);
    expect(problemsOf(seen)).toEqual([]);
    expect(seen.victim.asked).toBeGreaterThan(seconds);
  },
  timeoutMs,
);
