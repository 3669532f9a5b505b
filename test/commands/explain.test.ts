import { afterAll, beforeAll, expect, test } from "bun:test";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
  // The command needs no config: a person may have only the log.
  await rm(join(cli.folder, "config.toml"));
});
afterAll(() => cli.remove());

test("explain prints what an event means and what to do", async () => {
  const { stdout } = await cli.run("explain", "database_unusable");
  expect(stdout).toContain("the database is not usable");
  expect(stdout).toMatch(/^what to do +Run `tollgate doctor`/m);
  expect(await cli.json("explain", "database_unusable")).toEqual({
    event: "database_unusable",
    level: "error",
    message: "the database is not usable",
    meaning: expect.stringContaining("503"),
    advice: expect.stringContaining("tollgate doctor"),
  });
});

test("explain without a name lists all events", async () => {
  const { stdout } = await cli.run("explain");
  expect(stdout).toMatch(/^attempt_failed +warn +attempt failed$/m);
  expect(await cli.json("explain")).toContainEqual(
    expect.objectContaining({ event: "config_rejected", level: "error" }),
  );
});

test("explain refuses an unknown name and lists those that it knows", async () => {
  const { status, stderr } = await cli.run("explain", "attempt_faild");
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: expect.stringContaining("attempt_failed"),
  });
});
