import { seededRandom, type Chance } from "../seededRandom.ts";
import { chargedRequests, generatedCost } from "../generation/money.ts";
import { attacker, openAttack, type AttackGateway, type AttackSetup } from "./setup.ts";
import { beVictim, type VictimAsks, type VictimSeen } from "./victim.ts";

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

/** Money in nano-roubles, of the requests of the attacker whose plan has this name. */
export interface TakenRow {
  readonly what: string;
  readonly requests: number;
  readonly generated: bigint;
  readonly charged: bigint;
}

export interface AttackSeen {
  readonly name: string;
  readonly isPaid: boolean;
  readonly victim: VictimSeen;
  /** The warnings and errors of the gateway's log, and how often each came. */
  readonly events: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly requests: number;
  /** The providers' own count at the prices of the models. */
  readonly generated: bigint;
  readonly charged: bigint;
  /** By the name of the plan. */
  readonly rows: readonly TakenRow[];
}

/** Runs an attack against a gateway of its own, and audits it at the end. */
export async function runAttack(
  attack: Attack,
  seconds: number,
  seed: number,
): Promise<AttackSeen> {
  const setup = await openAttack(attack.gateway);
  try {
    const startedMs = performance.now();
    let isDone = false;
    const isLate = (): boolean => performance.now() - startedMs > seconds * 1000;
    const isOver = (): boolean => (attack.isAsLongAsItsRequests ? isDone : isLate());
    const run = async (): Promise<number> => {
      await attack.run({ setup, random: seededRandom(seed), isOver: isLate });
      isDone = true;
      return (performance.now() - startedMs) / 1000;
    };
    const [victim, tookSeconds] = await Promise.all([
      beVictim(setup, attack.victim, isOver),
      run(),
    ]);
    await setup.atRest();
    const { name, isPaid } = attack;
    const events = eventsOf(setup);
    return { name, isPaid, victim, events, seconds: tookSeconds, ...(await taken(setup)) };
  } finally {
    await setup.close();
  }
}

function eventsOf({ gateway }: AttackSetup): Record<string, number> {
  const lines = gateway.log.filter(({ level }) => level === "warn" || level === "error");
  const groups = Map.groupBy(lines, ({ event, msg }) => (typeof event === "string" ? event : msg));
  return Object.fromEntries([...groups].map(([event, group]) => [event, group.length]));
}

async function taken({ gateway, providers }: AttackSetup) {
  const ofAttacker = (await chargedRequests(gateway.place)).filter(
    ({ account }) => account === attacker,
  );
  const charges = new Map(ofAttacker.map(({ id, charge }) => [id, charge]));
  const generated = providers
    .flatMap((provider) => provider.generated)
    .filter(({ id }) => charges.has(id));
  const rows = [...Map.groupBy(generated, ({ name }) => name)].map(([what, group]): TakenRow => {
    const ids = new Set(group.map(({ id }) => id));
    return {
      what,
      requests: ids.size,
      generated: sumOf(group.map(generatedCost)),
      charged: sumOf([...ids].map((id) => charges.get(id) ?? 0n)),
    };
  });
  return {
    requests: ofAttacker.length,
    generated: sumOf(rows.map((row) => row.generated)),
    charged: sumOf(ofAttacker.map(({ charge }) => charge)),
    rows: rows.toSorted((a, b) => (a.what < b.what ? -1 : 1)),
  };
}

function sumOf(amounts: readonly bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}
