import { afterEach, beforeEach, expect, test } from "bun:test";
import { fromSource, openDesk, type Desk } from "../support/binary/cli.ts";

let desk: Desk;
beforeEach(async () => {
  // No file may grow beyond 8 KB, which is less than SQLite's index of its log takes: a disk that is quite full.
  const limited = 'trap "" XFSZ; ulimit -f 8; exec "$0" "$@"';
  desk = await openDesk(undefined, ["bash", "-c", limited, ...fromSource]);
  desk.makeDatabase();
});
afterEach(() => desk.remove());

test.each(["accounts list", "accounts create alice", "audit"])(
  "on a disk without any room `%s` says what is missing",
  async (command) => {
    const { status, stdout, stderr } = await desk.run(...command.split(" "));
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toBe(`error: database has no room left on its disk: ${desk.database}`);
  },
);
