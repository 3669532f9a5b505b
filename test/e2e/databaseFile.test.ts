import { describe, expect, test } from "bun:test";
import { copyFile, rename, rm } from "node:fs/promises";
import { oneModel } from "../support/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/gatewayProcess.ts";

/** It looks every 5 s; the rest is for a busy machine. */
const noticedWithinMs = 8000;

/** What happens to the file at this path; its true content lies aside afterwards. */
const losses: readonly (readonly [string, (path: string, aside: string) => Promise<void>])[] = [
  ["removed", (path, aside) => rename(path, aside)],
  [
    "replaced",
    async (path, aside) => {
      await copyFile(path, aside);
      await copyFile(path, `${path}.other`);
      await rename(`${path}.other`, path);
    },
  ],
];

describe("a gateway whose database file is", () => {
  test.concurrent.each(losses)(
    "%s ends within seconds with status 1, and says why",
    async (_, lose) => {
      const gateway = await startGatewayProcess(oneModel("http://127.0.0.1:9/v1"));
      const { database } = gateway.desk;
      const aside = `${database}.aside`;
      try {
        await gateway.key("alice", "1");
        await lose(database, aside);
        const late = Bun.sleep(noticedWithinMs).then(() => "still running");
        expect(await Promise.race([gateway.ended, late])).toBe(1);
        expect(gateway.log.at(-1)).toMatchObject({
          level: "error",
          problem: "the database file was removed or replaced while running",
        });
      } finally {
        await rm(database, { force: true });
        await rename(aside, database);
        await gateway.close();
      }
    },
    startTimeoutMs,
  );
});
