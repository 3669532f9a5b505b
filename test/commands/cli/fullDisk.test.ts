import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { fromSource, openDesk, type Desk } from "../../support/binary/cli.ts";

/** Commands that cannot make a file larger than this, as on a disk that is almost full. */
function deskWithRoomFor(kilobytes: number, config?: null): Promise<Desk> {
  const limited = `trap "" XFSZ; ulimit -f ${kilobytes}; exec "$0" "$@"`;
  return openDesk(config, ["bash", "-c", limited, ...fromSource]);
}

test("init removes a config that it cannot write completely", async () => {
  const desk = await deskWithRoomFor(1, null);
  const { status, stdout, stderr } = await desk.run("init");
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  expect(stderr).toMatch(/^error: .*config\.toml: cannot be written: [^\n]+$/);
  expect(await readdir(desk.folder)).toEqual([]);
  await desk.remove();
});

test.each(["accounts list", "accounts create alice", "audit"])(
  "`%s` on a full disk names the database and the missing room",
  async (command) => {
    // SQLite needs more than 8 KB for the index of its log.
    const desk = await deskWithRoomFor(8);
    desk.makeDatabase();
    const { status, stdout, stderr } = await desk.run(...command.split(" "));
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toBe(`error: database has no room left on its disk: ${desk.database}`);
    await desk.remove();
  },
);
