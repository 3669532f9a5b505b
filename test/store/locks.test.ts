import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openStore, takeInstanceLock } from "../../src/store/store.ts";

const storeModule = resolve(import.meta.dir, "../../src/store/store.ts");

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-locks-"));
  path = join(folder, "tollgate.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the text as a program of its own; returns what it printed. */
async function otherProcess(program: string): Promise<string> {
  const child = Bun.spawn([process.execPath, "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return child.stdout.text();
}

describe("a lock of this process stays when it opens the same file once more", () => {
  test.skipIf(process.platform !== "linux")(
    "on the database: an older SQLite that looks into it would else remove the log behind itself",
    () => {
      const open = () => openStore({ path, durability: "process", serving: true });
      const stores = [open(), open()];
      const { ino } = statSync(path);
      expect(readFileSync("/proc/locks", "utf8")).toContain(`:${ino} `);
      for (const store of stores) store.close();
    },
  );

  test("on the instance: no other gateway may start", async () => {
    const lock = takeInstanceLock(path);
    expect(takeInstanceLock(path)).toBeUndefined();
    const program = `
      import { takeInstanceLock } from ${JSON.stringify(storeModule)};
      console.log(takeInstanceLock(${JSON.stringify(path)}) === undefined);`;
    expect(await otherProcess(program)).toBe("true\n");
    lock?.release();
  });
});

test("who only asks for a running gateway leaves no lock behind, which would be its own", () => {
  const store = openStore({ path, durability: "process", serving: false });
  expect(store.audit()).toMatchObject({ problems: [] });
  store.close();
  expect(existsSync(`${path}.lock`)).toBe(false);
});
