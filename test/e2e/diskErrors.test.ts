import { expect, test } from "bun:test";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { describeFaultyDisk, openOnDiskBefore } from "../support/disk/diskWorld.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

const describeOnDisk = describeFaultyDisk("errors of the disk");

const tries = 100;
const recoveryMs = 15_000;

describeOnDisk("a disk without any room", () => {
  const opened = openOnDiskBefore(startLoadProvider({ wordDelayMs: 0 }));

  test("makes /healthz unavailable until there is room, without other requests", async () => {
    const { world, disk, key } = opened.on;
    const { gateway } = world;
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

const silent = startProvider(() => {});

describeOnDisk("a start with open requests of an earlier process", () => {
  const opened = openOnDiskBefore({
    url: `http://127.0.0.1:${silent.port}/v1`,
    stop: () => silent.stop(),
  });

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
