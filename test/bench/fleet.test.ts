import { expect, test } from "bun:test";
import { simulateFleet } from "../../bench/fleet/fleet.ts";

const usual = {
  replicas: 3,
  accounts: 20,
  rate: 200,
  zipf: 1,
  requestMs: 400,
  balance: 10n ** 6n,
  hold: 10n,
  charge: 4n,
  isSticky: false,
  service: {
    fixed: 2,
    eachRequest: 0.02,
    eachAccount: 0.1,
    eachRow: 0.04,
    eachBlock: 0.03,
    roundTrip: 0.5,
  },
  warmUpMs: 500,
  measuredMs: 2000,
  seed: 1,
};

const cases: readonly [name: string, changes: Partial<typeof usual>][] = [
  ["money for all", {}],
  ["money for some, which replicas take from each other", { balance: 60n }],
  ["one account", { accounts: 1 }],
  ["each account at one replica", { isSticky: true }],
];

// The simulation throws if money appears or vanishes, or if something stays held or reserved.
for (const [name, changes] of cases)
  test(`a simulated fleet ends each request once and keeps its books: ${name}`, () => {
    const figures = simulateFleet({ ...usual, ...changes });
    const isScarce = changes.balance !== undefined;
    // Requests that wait for money may be behind, too.
    if (!isScarce) expect(figures.isBehind).toBe(false);
    expect(figures.started).toBeGreaterThan(200);
    expect(figures.charged + figures.refused).toBe(figures.started);
    expect(figures.refused > 0).toBe(isScarce);
  });

test("the same seed gives the same figures", () => {
  expect(simulateFleet(usual)).toEqual(simulateFleet(usual));
});

test("a replica starts at most 40 transactions a second, whatever comes", () => {
  const { counts, seconds } = simulateFleet({ ...usual, replicas: 1, rate: 2000 });
  expect(counts.transactions / seconds).toBeLessThanOrEqual(41);
});

test("a fleet whose server is too slow is reported as behind", () => {
  const service = { ...usual.service, eachRequest: 50 };
  expect(simulateFleet({ ...usual, service }).isBehind).toBe(true);
});
