import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { fromSource, openDesk, type Desk } from "../support/binary/cli.ts";

let desk: Desk;
beforeAll(async () => {
  // No file may grow beyond one block, as on a disk that is full after it.
  const limited = 'trap "" XFSZ; ulimit -f 1; exec "$0" "$@"';
  desk = await openDesk(null, ["bash", "-c", limited, ...fromSource]);
});
afterAll(() => desk.remove());

test("a config that cannot be written whole leaves nothing behind", async () => {
  const { status, stdout, stderr } = await desk.run("init");
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  expect(stderr).toMatch(/^error: .*config\.toml: cannot be written: [^\n]+$/);
  expect(await readdir(desk.folder)).toEqual([]);
});
