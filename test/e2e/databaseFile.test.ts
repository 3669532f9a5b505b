import { expect, test } from "bun:test";
import { copyFile, link, rename, rm } from "node:fs/promises";
import { chat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { describeSqlite } from "../support/testedEngines.ts";

/** The gateway checks every 5 s. The rest is for a busy machine. */
const noticedWithinMs = 20_000;

/** Changes the file at this path, after a copy of its content. */
const losses: readonly (readonly [string, (path: string, backup: string) => Promise<void>])[] = [
  ["removed", (path, backup) => rename(path, backup)],
  [
    "replaced",
    async (path, backup) => {
      await link(path, backup);
      await copyFile(path, `${path}.other`);
      await rename(`${path}.other`, path);
    },
  ],
];

/** The lost file, and the suffix of its name after the name of the database. */
const files = [
  ["database file", ""],
  ["database's lock file", ".lock"],
] as const;

describeSqlite("a gateway ends within seconds with status 1 and the reason when", () => {
  test.concurrent.each(
    files.flatMap(([what, suffix]) => losses.map(([loss, lose]) => ({ what, suffix, loss, lose }))),
  )(
    "the $what is $loss",
    async ({ what, suffix, lose }) => {
      const gateway = await startGatewayProcess(oneModel("http://127.0.0.1:9/v1"));
      const file = `${gateway.cli.database}${suffix}`;
      const backup = `${file}.backup`;
      try {
        const key = await gateway.key("alice", "1");
        // The writer opens the file too, and the start does not wait for the writer. This request does.
        expect((await chat(gateway, { key })).status).toBe(502);
        await lose(file, backup);
        const late = Bun.sleep(noticedWithinMs).then(() => "still running");
        expect(await Promise.race([gateway.ended, late])).toBe(1);
        expect(gateway.log.at(-1)).toMatchObject({
          level: "error",
          problem: `the ${what} was removed or replaced while running`,
        });
      } finally {
        await rm(file, { force: true });
        await rename(backup, file);
        await gateway.close();
      }
    },
    startTimeoutMs,
  );
});
