import { afterAll, beforeAll, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { runCrashCycle } from "../support/crashCycle.ts";
import { oneModel } from "../support/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/gatewayProcess.ts";

// A word a millisecond: answers are under way all the time.
const provider = startDemoProvider({ wordDelayMs: 1 });
let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  const sections = { database: { path: "tollgate.db", durability: "power" } };
  gateway = await startGatewayProcess(oneModel(provider.url, sections));
  key = await gateway.key("alice", "1000");
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  await provider.stop();
});

const cycleTimeoutMs = 30_000;

// `bun scripts/crashLoop.ts` goes on for a thousand cycles.
test.each([1, 2, 5, 9, 14, 20, 26, 31, 33, 38, 42, 45])(
  "kill -9 after %i whole answers: each was charged exactly once, no hold and no credit is lost",
  async (killAfter) => {
    const name = `crash-after-${killAfter}`;
    const cycle = await runCrashCycle(gateway, { account: "alice", key }, { name, killAfter });
    expect(cycle.problems).toEqual([]);
    expect(cycle.whole).toBeGreaterThanOrEqual(killAfter);
    expect(cycle.credits).toBeGreaterThan(0);
  },
  cycleTimeoutMs,
);
