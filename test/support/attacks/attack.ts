import { chargedRequests, generatedCost, inRoubles } from "../generation/money.ts";
import { chanceOf, type Chance } from "../seededRandom.ts";
import { inWorld, type Script } from "../world/script.ts";
import { attacker, openAttack, type AttackGateway, type AttackSetup } from "./setup.ts";
import { beVictim, type VictimAsks } from "./victim.ts";

/** Something that one tenant does to others, or to the operator. */
export interface Attack {
  readonly name: string;
  readonly gateway: AttackGateway;
  readonly victim: VictimAsks;
  /** Goes on until it is over, or until it has done all that it does. */
  readonly run: (given: AttackRun) => Promise<void>;
  /** It lasts as long as its requests do, not as long as other attacks. */
  readonly isAsLongAsItsRequests?: boolean;
  /**
   * The attacker gets what a provider generates for it, so it must be paid. Otherwise what is unpaid is shown, and lost
   * by the operator alone: nobody got anything for it.
   */
  readonly isPaid: boolean;
}

export interface AttackRun {
  readonly setup: AttackSetup;
  readonly random: Chance;
  readonly isOver: () => boolean;
}

const restTimeoutMs = 300_000;
/** What may be taken unpaid, as a share of what was paid. */
const UNPAID_SHARE_MAX = 0.01;

/** An attack against a gateway of its own. `isShort`: CI runs it too. */
export function scriptOf(attack: Attack, isShort: boolean): Script {
  const { name, gateway, victim, isAsLongAsItsRequests = false } = attack;
  return inWorld<AttackSetup>({
    name: `attack: ${name}`,
    proves: "of one tenant: another one gets all of its answers, and nothing is taken unpaid",
    unit: "seconds",
    amounts: isShort ? [3, 4, 15] : [0, 0, 15],
    open: (seed) => openAttack(seed, gateway),
    isDisturbed: true,
    restTimeoutMs,
    beside: [
      (setup, isOver) =>
        beVictim(
          setup,
          victim,
          isAsLongAsItsRequests ? () => setup.tookSeconds !== undefined : isOver,
        ),
      async (setup, isOver) => {
        const startedMs = performance.now();
        await attack.run({ setup, random: chanceOf(setup.world.seed, 0), isOver });
        setup.tookSeconds = (performance.now() - startedMs) / 1000;
      },
    ],
    check: (setup) => problemsOf(attack, setup),
    least: (seconds) => ({ asked: seconds }),
  });
}

/** What no tenant may do to another one, or take from the operator. */
async function problemsOf(
  { isPaid }: Attack,
  { world, providers, tookSeconds = NaN }: AttackSetup,
): Promise<readonly string[]> {
  const lines = world.gateway.log.filter(({ level }) => level === "warn" || level === "error");
  const events = Map.groupBy(lines, ({ event, msg }) => (typeof event === "string" ? event : msg));
  world.figures["events"] = Object.fromEntries(
    [...events].map(([event, group]) => [event, group.length]),
  );
  const requests = (await chargedRequests(world.gateway.place)).filter(
    ({ account }) => account === attacker,
  );
  const charges = new Map(requests.map(({ id, charge }) => [id, charge]));
  const generated = providers
    .flatMap((provider) => provider.generated)
    .filter(({ id }) => charges.has(id));
  const money: string[] = [];
  const problems: string[] = [];
  const [asked, got] = [world.counted("asked"), world.counted("got")];
  if (got < asked) problems.push(`the victim got ${got} of ${asked} answers`);
  // By the name of the plan.
  for (const [what, group] of Map.groupBy(generated, ({ name }) => name)) {
    const ids = [...new Set(group.map(({ id }) => id))];
    const due = sumOf(group.map(generatedCost));
    const paid = sumOf(ids.map((id) => charges.get(id) ?? 0n));
    const row = `${what}: ${inRoubles(paid)} of ${inRoubles(due)} roubles were paid`;
    const unpaidAnHour = (Number(due - paid) * 3600) / tookSeconds;
    money.push(`${row}, ${inRoubles(Math.max(0, unpaidAnHour), 0)} an hour were not`);
    if (isPaid && Number(due - paid) > UNPAID_SHARE_MAX * Number(paid)) problems.push(row);
  }
  world.figures["money"] = money;
  return problems;
}

function sumOf(amounts: readonly bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}
