import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { call, chat } from "../support/chatCalls.ts";
import { cCompiler, tellNotRun } from "../support/disk/faultyDisk.ts";
import { startGatewayOnDisk, type GatewayOnDisk } from "../support/disk/powerCut.ts";
import { startTimeoutMs } from "../support/gatewayProcess.ts";

const canRun = cCompiler() !== undefined;
if (!canRun) tellNotRun("slow commits");

const provider = startDemoProvider({ wordDelayMs: 0 });
afterAll(() => provider.stop());

const syncMs = 500;
/** How late the gateway may be with anything else, in 99 of 100 cases. */
const lagMsMax = 20;

describe.skipIf(!canRun)("a commit that takes half a second", () => {
  let on: GatewayOnDisk;
  beforeAll(async () => {
    on = await startGatewayOnDisk(provider.url, "power");
  }, startTimeoutMs);
  afterAll(() => on.close());

  test("delays the end of its answers, and nothing else", async () => {
    const { gateway, disk, key } = on;
    await disk.tell(`slow ${syncMs}`);
    const startedMs = performance.now();
    const load = { isOver: false };
    const answers = Promise.all(
      Array.from({ length: 8 }, (_, at) => chat(gateway, { key }, { stream: at % 2 === 0 })),
    ).finally(() => (load.isOver = true));
    const lagsMs: number[] = [];
    while (!load.isOver) {
      const askedMs = performance.now();
      await call(gateway, undefined, { path: "/healthz" });
      lagsMs.push(performance.now() - askedMs);
    }
    for (const { status } of await answers) expect(status).toBe(200);
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(syncMs);
    lagsMs.sort((one, other) => one - other);
    // Whatever else this machine has to do, nobody may wait for the sync.
    expect(lagsMs[Math.floor(lagsMs.length * 0.99)]).toBeLessThan(lagMsMax);
    expect(lagsMs.at(-1)).toBeLessThan(syncMs / 2);
    await disk.tell("go");
  });
});
