import { several } from "../several.ts";
import { chanceOf, type Chance } from "../seededRandom.ts";
import { closingProblems } from "./closing.ts";
import {
  figuresOf,
  noSamples,
  problemsOfSamples,
  untilGivenBack,
  watch,
  type Samples,
} from "./growth.ts";
import type { World } from "./world.ts";

/** A random proof: CI runs its short form, `bun run prove NAME` its long one. */
export interface Script {
  readonly name: string;
  /** What is proved, after the amount. */
  readonly proves: string;
  /** What the amount counts. */
  readonly unit: string;
  /** The amounts in CI, in its long form, and of the command. */
  readonly amounts: readonly [ci: number, long: number, command: number];
  /** The seed in CI; 1 unless given. */
  readonly ciSeed?: number;
  /** The command runs a larger amount in rounds of this, each with its own seed. */
  readonly roundMax?: number;
  /** Why it cannot run here. */
  readonly missing?: string | undefined;
  readonly run: (given: Given) => Promise<Seen>;
}

export interface Given {
  readonly seed: number;
  readonly amount: number;
  /** Called with the figures so far, each minute. */
  readonly report: (figures: object) => void;
}

/** What a run counted; `problems` is empty if all is well. */
export interface Seen {
  readonly problems: readonly string[];
}

/** A script whose clients use one gateway, each play drawn from the seed and its number alone. */
export interface WorldScript<Setup extends { readonly world: World }> extends Omit<Script, "run"> {
  /** The unit of a script that goes by the clock is `seconds`, and otherwise a name that its plays count. */
  readonly unit: string;
  /** Clients at once; none unless given. */
  readonly atOnce?: number | ((amount: number) => number);
  /** How much the heap of the idle gateway may grow for each process that serves; 64 MiB unless given. */
  readonly heapMiBMore?: number;
  /** How long what was begun may take. */
  readonly restTimeoutMs?: number;
  open(seed: number, amount: number): Promise<Setup>;
  /** One client, from its beginning to its end. */
  play?(setup: Setup, chance: Chance, number: number): Promise<void>;
  /** Comes first; a tenth of the plays unless given. */
  warmUp?(setup: Setup): Promise<void>;
  /** The gateway is disturbed on purpose, or ended: its memory and health are not measured. */
  readonly isDisturbed?: boolean;
  /** Its log has errors on purpose. */
  readonly hasErrors?: boolean;
  /** What happens beside the clients until it is over. */
  readonly beside?: readonly ((setup: Setup, isOver: () => boolean) => Promise<void>)[];
  /** Ends what the clients keep. */
  leave?(setup: Setup): Promise<void>;
  /** Each minute and at rest: what can be judged and then be forgotten. */
  judge?(setup: Setup): Promise<void>;
  /** At rest: further problems. */
  check?(setup: Setup, samples: Samples, amount: number): Promise<readonly string[]>;
  /** What must be counted, or the run did not test it. */
  least(amount: number): Readonly<Record<string, number>>;
}

/** A run that finds this much ends early. */
const problemsMax = 20;
const minuteMs = 60_000;
const warmUpShare = 0.1;

export function inWorld<Setup extends { readonly world: World }>(
  script: WorldScript<Setup>,
): Script {
  return {
    ...script,
    async run({ seed, amount, report }) {
      const setup = await script.open(seed, amount);
      try {
        return await play(script, setup, { seed, amount, report });
      } finally {
        await setup.world.close();
      }
    },
  };
}

async function play<Setup extends { readonly world: World }>(
  script: WorldScript<Setup>,
  setup: Setup,
  { seed, amount, report }: Given,
): Promise<Seen> {
  const { world } = setup;
  const { pid } = world.gateway;
  const { atOnce = 0 } = script;
  const clients = typeof atOnce === "number" ? atOnce : atOnce(amount);
  const complain = (name: string) => (error: unknown) =>
    world.problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
  const untilReached = (limit: number): (() => boolean) => {
    const endMs = performance.now() + limit * 1000;
    const isReached =
      script.unit === "seconds"
        ? () => performance.now() >= endMs
        : () => world.counted(script.unit) >= limit;
    return () => isReached() || world.problems.length >= problemsMax;
  };
  let plays = 0;
  const useUntil = async (isOver: () => boolean): Promise<void> => {
    const client = async (): Promise<void> => {
      while (!isOver()) {
        const number = plays;
        plays += 1;
        const name = `seed ${seed}, play ${number}`;
        await script.play?.(setup, chanceOf(seed, number), number).catch(complain(name));
      }
    };
    await Promise.all(several(clients, client));
  };

  const startedMs = performance.now();
  const seconds = (): number => Math.round((performance.now() - startedMs) / 1000);
  await (script.warmUp?.(setup) ?? useUntil(untilReached(amount * warmUpShare)));
  await script.leave?.(setup);
  await world.atRest(script.restTimeoutMs);
  const before = await world.kept();
  if (script.unit === "seconds") world.endMs = performance.now() + amount * 1000;
  const isOver = untilReached(amount);
  let judging = Promise.resolve();
  const everyMinute = setInterval(() => {
    judging = judging
      .then(() => script.judge?.(setup))
      .catch(complain("judging"))
      .then(() => report({ seed, seconds: seconds(), plays, ...world.counts }));
  }, minuteMs);
  const [samples] = await Promise.all([
    script.isDisturbed ? noSamples : watch(world, isOver),
    useUntil(isOver),
    ...(script.beside ?? []).map((one) => one(setup, isOver).catch(complain(one.name))),
  ]);
  clearInterval(everyMinute);
  await judging;
  await script.leave?.(setup);
  await world.atRest(script.restTimeoutMs).catch(complain("at the end"));
  const growth = script.isDisturbed
    ? undefined
    : await untilGivenBack(world, before, script.heapMiBMore);
  await script.judge?.(setup);
  if (!script.isDisturbed && world.gateway.pid !== pid)
    world.problems.push("the gateway is another process");
  const found = [
    ...problemsOfSamples(samples),
    ...(await closingProblems(world, script.hasErrors)),
    ...((await script.check?.(setup, samples, amount)) ?? []),
  ];
  const untested = Object.entries(script.least(amount)).filter(
    ([what, least]) => world.counted(what) < least,
  );
  const { counts } = world;
  const problems = [
    ...world.problems,
    ...found,
    ...untested.map(([what, least]) => `only ${counts[what] ?? 0} of ${least}: ${what}`),
  ];
  const measured = script.isDisturbed ? {} : { ...figuresOf(samples), growth };
  const figures = { seed, seconds: seconds(), plays, ...counts, ...measured, ...world.figures };
  return { ...figures, problems };
}
