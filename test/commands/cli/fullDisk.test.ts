import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { fromSource, openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

/** A desk whose commands cannot create a larger file, as on an almost full disk. */
function deskWithRoomFor(kilobytes: number, config?: null): Promise<CliFolder> {
  const limited = `trap "" XFSZ; ulimit -f ${kilobytes}; exec "$0" "$@"`;
  return openCliFolder(config, ["bash", "-c", limited, ...fromSource]);
}

test("init removes a config that it cannot write completely", async () => {
  const cli = await deskWithRoomFor(1, null);
  const { status, stdout, stderr } = await cli.run("init");
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  expect(stderr).toMatch(/^error: .*config\.toml: cannot be written: [^\n]+$/);
  expect(await readdir(cli.folder)).toEqual([]);
  await cli.remove();
});

test.each(["accounts list", "accounts create alice", "audit"])(
  "`%s` on a full disk names the database and the missing room",
  async (command) => {
    // SQLite needs more than 8 KB for the index of its log.
    const cli = await deskWithRoomFor(8);
    cli.makeDatabase();
    const { status, stdout, stderr } = await cli.run(...command.split(" "));
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toBe(`error: database has no room left on its disk: ${cli.database}`);
    await cli.remove();
  },
);
