import { afterAll, beforeAll, expect, test } from "bun:test";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { failDisk, type DiskError } from "../support/disk/diskError.ts";
import { describeFaultyDisk } from "../support/disk/describeFaultyDisk.ts";
import { startGatewayOnDisk, type GatewayOnDisk } from "../support/disk/powerCut.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { amount, isLong } from "../support/sample.ts";

const describeOnDisk = describeFaultyDisk("errors of the disk");

const demo = startLoadProvider({ wordDelayMs: 0 });
const silent = startProvider(() => {});
afterAll(async () => {
  demo.stop();
  silent.stop();
});

const sweepTimeoutMs = 90_000;
const tries = 100;
const recoveryMs = 15_000;

function openBefore(providerUrl: string): { readonly on: GatewayOnDisk } {
  let opened: GatewayOnDisk | undefined;
  beforeAll(async () => {
    opened = await startGatewayOnDisk(providerUrl, "power");
  }, startTimeoutMs);
  afterAll(() => opened?.close());
  return {
    get on() {
      if (!opened) throw new Error("the gateway is not started yet");
      return opened;
    },
  };
}

/** Every `step`th number from `first` to `last`. */
function numbers(first: number, last: number, step: number): number[] {
  return Array.from(
    { length: Math.floor((last - first) / step) + 1 },
    (_, at) => first + at * step,
  );
}

type Sweep = readonly [what: string, error: Omit<DiskError, "nth">, nths: readonly number[]];

const fatal: readonly Sweep[] = [
  [
    "from the Nth on a write fails",
    { call: "write", error: "EIO", count: 0 },
    isLong ? numbers(1, 50, 1) : [1, 2, 3, 5, 8, 13, 21, 34, 50],
  ],
  ["the Nth sync fails", { call: "sync", error: "EIO", count: 1 }, numbers(1, amount(4, 8), 1)],
];
const passing: readonly Sweep[] = [
  [
    "at the Nth write the disk is full",
    { call: "write", error: "ENOSPC", count: 4 },
    numbers(1, 50, amount(10, 5)),
  ],
  [
    "the Nth write is cut short",
    { call: "write", error: "SHORT", count: 4 },
    numbers(3, 50, amount(10, 5)),
  ],
];

// `bun scripts/diskErrors.ts` runs longer.
describeOnDisk("no client received a complete answer whose charge is missing", () => {
  const opened = openBefore(demo.url);

  test.each(fatal)(
    "when %s: the gateway ends with a failure, and the next start is in order",
    async (_, error, nths) => {
      for (const nth of nths) {
        const { exit, problems } = await failDisk(opened.on, { ...error, nth });
        expect({ nth, exit, problems }).toEqual({ nth, exit: 1, problems: [] });
      }
    },
    sweepTimeoutMs,
  );

  test.each(passing)(
    "when %s: the gateway continues as soon as there is room",
    async (_, error, nths) => {
      for (const nth of nths) {
        const { exit, problems } = await failDisk(opened.on, { ...error, nth });
        expect({ nth, exit, problems }).toEqual({ nth, exit: undefined, problems: [] });
      }
    },
    sweepTimeoutMs,
  );
});

describeOnDisk("a disk without any room", () => {
  const opened = openBefore(demo.url);

  test("makes /healthz unavailable until there is room, without other requests", async () => {
    const { gateway, disk, key } = opened.on;
    const health = async () => (await call(gateway, undefined, { path: "/healthz" })).status;
    expect(await health()).toBe(200);
    await disk.tell("fail write 1 ENOSPC 0");
    // Each of them checks again whether there is room.
    for (let count = 0; count < tries; count += 1)
      expect((await chat(gateway, { key })).status).toBe(502);
    expect(await health()).toBe(503);
    await disk.tell("go");
    const deadlineMs = performance.now() + recoveryMs;
    while ((await health()) === 503 && performance.now() < deadlineMs) await Bun.sleep(1);
    expect(await health()).toBe(200);
    expect((await chat(gateway, { key })).status).toBe(200);
  });
});

describeOnDisk("a start with open requests of an earlier process", () => {
  const opened = openBefore(`http://127.0.0.1:${silent.port}/v1`);

  test.each([
    ["write", "EIO"],
    ["write", "ENOSPC"],
    ["sync", "EIO"],
  ])(
    "fails when a %s fails with %s, and interrupts them when the disk works",
    async (call, error) => {
      const { gateway, disk, key } = opened.on;
      void chat(gateway, { key }).catch(() => {});
      await gateway.lateRow();
      await gateway.kill();
      disk.first = `fail ${call} 1 ${error} 0`;
      const failed = await gateway.start().catch((cause: unknown) => String(cause));
      expect(failed).toContain("the gateway ended with 1: ");
      disk.first = "go";
      await gateway.start();
      await gateway.expectAuditPasses();
    },
  );
});
