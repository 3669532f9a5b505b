import { expect, test } from "bun:test";
import { runCrashCycle } from "../support/binary/crashCycle.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { startMixedProviders } from "../support/binary/mixedProviders.ts";
import { testedStore } from "../support/testedEngines.ts";
import { isLong } from "../support/sample.ts";

const providers = startMixedProviders();
const sections = { database: { path: "tollgate.db", durability: "power" } };
const setup = openBinaryBefore(providers.config(sections), providers);

/** A number of the 50 requests of a cycle. Some must be in flight at the kill. */
const killAfterMax = 45;
/** After a crash a server is at rest only when the killed replica was silent for 15 s. */
const cycles = testedStore === "sqlite" ? killAfterMax : 3;
const cycleTimeoutMs = 60_000;

/** Visits all moments in a mixed order. */
const killAfterIn = (cycle: number): number => 1 + ((cycle * 31) % killAfterMax);
const everyCycle = Array.from({ length: cycles }, (_, at) => [at + 1, killAfterIn(at)] as const);
const momentsInCi = [1, 5, 11, 20, 31, 45];
const chosenCycles =
  isLong || testedStore !== "sqlite"
    ? everyCycle
    : everyCycle.filter(([, killAfter]) => momentsInCi.includes(killAfter));

// `bun scripts/crashLoop.ts` runs a thousand cycles.
test.each(chosenCycles)(
  "cycle %i, kill -9 after %i whole answers: each was charged exactly once, no hold, credit or redemption is lost",
  async (at, killAfter) => {
    const name = `crash-${at}`;
    const payer = { account: "alice", key: setup.key };
    const cycle = await runCrashCycle(setup.gateway, payer, { name, killAfter });
    expect(cycle.problems).toEqual([]);
    expect(cycle.whole).toBeGreaterThanOrEqual(killAfter);
    expect(cycle.credits).toBeGreaterThan(0);
    // A kill after a few answers can come before the first redemption.
    expect(cycle.redemptions).toBeGreaterThan(killAfter > 10 ? 0 : -1);
  },
  cycleTimeoutMs,
);
