import { seededRandom } from "../seededRandom.ts";

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
