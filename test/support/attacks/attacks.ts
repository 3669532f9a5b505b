import { inRoubles } from "../generation/money.ts";
import { inBothForms } from "../generation/ways.ts";
import type { Attack, AttackSeen } from "./attack.ts";
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

export const attacks: readonly Attack[] = [
  none,
  ...provokingAttacks,
  ...crowdingAttacks,
  ...leavingAttacks,
];

/** What may be taken unpaid, as a share of what was paid. */
const UNPAID_SHARE_MAX = 0.01;

/** What no tenant may do to another one, or take from the operator. */
export function problemsOf({ name, isPaid, victim, rows }: AttackSeen): string[] {
  const problems: string[] = [];
  if (victim.got < victim.asked)
    problems.push(`${name}: the victim got ${victim.got} of ${victim.asked} answers`);
  if (!isPaid) return problems;
  for (const { what, generated, charged } of rows)
    if (Number(generated - charged) > UNPAID_SHARE_MAX * Number(charged))
      problems.push(
        `${name}: ${what}: ${inRoubles(charged)} of ${inRoubles(generated)} roubles were paid`,
      );
  return problems;
}
