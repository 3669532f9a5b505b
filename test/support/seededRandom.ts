/** Seeds that are drawn are below this. */
export const seedMax = 2 ** 31;

/** A seed for a run that was given none. */
export function drawnSeed(): number {
  return Math.floor(Math.random() * seedMax);
}

/** A small generator of repeatable randomness for tests: the same seed gives the same run. */
export function seededRandom(seed: number) {
  let state = seed >>> 0;
  /** mulberry32: at least 0, below 1. */
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    chance: (probability: number): boolean => next() < probability,
    below,
    pick: <Item>(items: readonly Item[]): Item => {
      const item = items[below(items.length)];
      if (item === undefined) throw new Error("there is nothing to pick from");
      return item;
    },
  };
}

export type Chance = ReturnType<typeof seededRandom>;

/** Repeatable randomness for one part of a run, the same whatever the other parts drew. */
export function chanceOf(seed: number, part: number): Chance {
  const mixed = Math.imul(seed ^ Math.imul(part + 1, 0x9e3779b1), 0x85ebca6b);
  return seededRandom(mixed ^ (mixed >>> 15));
}

/** One of the values, with a probability by its weight. */
export function weighed<Value>(
  chance: Chance,
  choices: readonly (readonly [weight: number, value: Value])[],
): Value {
  const total = choices.reduce((sum, [weight]) => sum + weight, 0);
  let left = chance.below(total);
  for (const [weight, value] of choices) {
    if (left < weight) return value;
    left -= weight;
  }
  throw new Error("there is nothing to choose from");
}
