import { afterAll, beforeAll, expect, test } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

const name = "my $(config).toml";
const option = `--config '${name}'`;

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
  await rename(cli.config, join(cli.folder, name));
});
afterAll(() => cli.remove());

async function printed(...args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await cli.run(...args, "--config", name);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

test("the next command that a command prints is quoted and names the same config", async () => {
  const created = await printed("accounts", "create", "alice");
  expect(created).toContain(`tollgate balance credit alice 100 ${option}\n`);
  expect(created).toEndWith(`tollgate keys create --account alice ${option}`);
  const lines: readonly (readonly [args: readonly string[], line: string])[] = [
    [["keys", "list"], "no keys yet: tollgate keys create --account NAME"],
    [["keys", "list", "--account", "alice"], "no keys yet: tollgate keys create --account alice"],
    [["requests"], "no requests yet: tollgate keys create --account NAME"],
    [["balance", "history", "alice"], "yet: tollgate balance credit alice 100"],
    [["keys", "create", "--account", "bob"], "add money: tollgate balance credit bob 100"],
  ];
  for (const [args, line] of lines) expect(await printed(...args)).toContain(`${line} ${option}`);
  await printed("accounts", "disable", "alice");
  expect(await printed("keys", "create", "--account", "alice")).toContain(
    `works after tollgate accounts enable alice ${option}`,
  );
}, 60_000);

test("backup prints a working restore command, and restore a working serve command", async () => {
  const file = join(cli.folder, "at night.db");
  expect(await printed("backup", "at night.db")).toEndWith(`tollgate restore '${file}' ${option}`);
  expect(await printed("restore", "at night.db")).toEndWith(`next: tollgate serve ${option}`);
}, 60_000);

test("init prints commands that name the new config", async () => {
  const { stdout } = await cli.run("init", "my new.toml");
  const file = join(cli.folder, "my new.toml");
  expect(stdout).toContain(`tollgate check --config '${file}'\n`);
  expect(stdout).toContain(`tollgate keys create --account NAME --config '${file}'\n`);
}, 60_000);
