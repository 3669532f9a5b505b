import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openSoakSetup, type SoakSetup } from "../support/soak/setup.ts";
import { soak } from "../support/soak/soak.ts";
import { testedStore } from "../support/testedEngines.ts";

let setup: SoakSetup;
beforeAll(async () => {
  setup = await openSoakSetup(1);
}, startTimeoutMs);
afterAll(() => setup.close());

const commands = ["audit", ...(testedStore === "sqlite" ? ["backup"] : []), "requests", "usage"];
const seconds = 20;
const timeoutMs = 300_000;
/**
 * Growth of resident memory from the first third to the last. Between two garbage collections it grew by up to 38 MiB.
 * The check of the heap at rest finds leaks far more exactly.
 */
const growthMiBMax = 64;
/**
 * The gateway's own measure of its event loop is that of the machine, too: 2 ms with the processors for itself, 180 beside
 * eight other programs. The time of a health check can be freed from what those take, and stayed below 30.
 */
const healthMsMax = 100;

// `bun scripts/soak.ts` runs for a day.
test(
  `${seconds} seconds of use with faults, departures, reloads, credits and backups leave books, files, log and memory as they should be`,
  async () => {
    const { problems, ...seen } = await soak(setup, {
      seconds,
      // Or the limit of the machine.
      perSecond: 200,
      reloadEveryMs: 6000,
    });
    process.stdout.write(`${JSON.stringify(seen)}\n`);
    expect(problems).toEqual([]);
    expect(Object.entries(seen.outcomes).filter(([, count]) => count === 0)).toEqual([]);
    expect(Object.keys(seen.commands).toSorted()).toEqual(commands);
    expect(seen.reloads).toBeGreaterThan(1);
    expect(seen.credits).toBeGreaterThan(5);
    expect(seen.left).toBeGreaterThan(10);
    expect(seen.failedOver).toBeGreaterThan(5);
    expect(seen.growthMiB).toBeLessThan(growthMiBMax);
    expect(seen.healthMs).toBeLessThan(healthMsMax);
  },
  timeoutMs,
);
