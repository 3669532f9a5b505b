import { describe, expect, test } from "bun:test";
import { orderCandidates, type Candidate } from "../../src/routing/candidates.ts";
import { systemRandom } from "../../src/lib/random.ts";
import { seededRandom } from "../support/seededRandom.ts";

const SESSIONS = 100_000;

/** Only what the order needs. */
function candidate(id: string, weight: number, priority = 1, rank = 0): Candidate {
  return { identity: `${id} m`, weight, rank, route: { priority }, provider: { id } } as Candidate;
}

const chance = seededRandom(7);
const random = { ...systemRandom, fraction: () => chance.below(1e9) / 1e9 };

/** The ids in the order for each of many sessions, or of draws at random. */
function orders(candidates: readonly Candidate[], isDrawn = false): readonly (readonly string[])[] {
  return Array.from({ length: SESSIONS }, (_, session) =>
    orderCandidates(candidates, isDrawn ? undefined : BigInt(session), random).map(
      ({ provider }) => provider.id,
    ),
  );
}

const weights: readonly (readonly [string, Readonly<Record<string, number>>])[] = [
  ["equal", { a: 1, b: 1, c: 1 }],
  ["small", { a: 1, b: 2, c: 5 }],
  ["fractions", { a: 0.5, b: 0.125, c: 0.375 }],
  ["large", { a: 1_000_000, b: 500_000, c: 500_000 }],
  [
    "of thirty",
    Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`p${at}`, 1 + (at % 3)])),
  ],
];

describe("candidates of equal priority", () => {
  for (const isDrawn of [false, true])
    test.each(weights)(`come first by weight: %s (at random: ${isDrawn})`, (_, shares) => {
      const total = Object.values(shares).reduce((sum, weight) => sum + weight);
      const all = Object.entries(shares).map(([id, weight]) => candidate(id, weight));
      const firsts = orders(all, isDrawn).map(([first = ""]) => first);
      for (const [id, weight] of Object.entries(shares)) {
        const found = firsts.filter((first) => first === id).length / SESSIONS;
        expect(Math.abs(found - weight / total)).toBeLessThan(0.005);
      }
    });

  test("keep their order for a session when one falls out, and in any order of the config", () => {
    const all = [candidate("a", 1), candidate("b", 2), candidate("c", 3), candidate("d", 1)];
    const whole = orders(all);
    const without = orders(all.slice(0, 2).concat(all.slice(3)).toReversed());
    expect(without).toEqual(whole.map((ids) => ids.filter((id) => id !== "c")));
  });

  test("come after those of lower rank, whatever their weight; without a known one last", () => {
    const all = [
      candidate("x", 1000, 1, Infinity),
      candidate("y", 1000, 1, Infinity),
      candidate("a", 1000, 1, 2),
      candidate("b", 1, 1, 1),
      candidate("c", 1, 1, 1),
    ];
    for (const isDrawn of [false, true]) {
      const seen = new Set(orders(all, isDrawn).map((ids) => ids.join("")));
      expect([...seen].toSorted()).toEqual(["bcaxy", "bcayx", "cbaxy", "cbayx"]);
    }
  });

  test("come after those of lower priority, whatever their weight", () => {
    const all = [candidate("a", 1000, 2), candidate("b", 1, 1), candidate("c", 1, 1)];
    expect(orders(all).every((ids) => ids[2] === "a")).toBe(true);
  });
});
