import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openStore, storeFiles, takeInstanceLock } from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store.ts";

const storeModule = resolve(import.meta.dir, "../../src/store/open.ts");

let folder: string;
let path: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "tollgate-locks-")));
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
      for (const store of stores) store.closeNow();
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

test("asking for a running gateway leaves no lock", async () => {
  const store = openStore({ path, durability: "process", serving: false });
  expect(await store.auditHere()).toMatchObject({ problems: [] });
  store.closeNow();
  expect(existsSync(`${path}.lock`)).toBe(false);
});

test.each<readonly [string, (lock: string) => void]>([
  ["another file", (lock) => writeFileSync(lock, "precious text\n".repeat(1000))],
  ["a folder", (lock) => mkdirSync(lock)],
])(
  "what lies in the place of the lock and is %s is left alone, and named with what to do",
  (_, make) => {
    make(`${path}.lock`);
    const advice = `${path}.lock should be the lock of the database, and is something else: move it away`;
    expect(() => takeInstanceLock(path)).toThrow(StoreError);
    expect(() => takeInstanceLock(path)).toThrow(advice);
  },
);

describe("a database that is reached by a link has one lock, beside the database itself", () => {
  const real = () => join(folder, "real", "tollgate.db");
  beforeEach(() => mkdirSync(join(folder, "real")));

  test.each<readonly [string, () => void]>([
    ["to the file", () => writeFileSync(real(), "")],
    ["to a file that is not there yet", () => {}],
  ])("a link %s", (_, make) => {
    make();
    symlinkSync("real/tollgate.db", path);
    expectOneLock(path);
  });

  test("a link to a link, which starts from where its own folder really is", () => {
    mkdirSync(join(folder, "links"));
    symlinkSync("links", join(folder, "more"));
    symlinkSync("../real/tollgate.db", join(folder, "links", "next"));
    symlinkSync("more/next", path);
    expectOneLock(path);
  });

  test("a folder that is a link, without a database in it yet", () => {
    symlinkSync("real", join(folder, "linked"));
    expectOneLock(join(folder, "linked", "tollgate.db"));
  });

  function expectOneLock(linked: string): void {
    for (const [first, second] of [
      [linked, real()],
      [real(), linked],
    ] as const) {
      const lock = takeInstanceLock(first);
      expect(takeInstanceLock(second)).toBeUndefined();
      expect(storeFiles(second)).toMatchObject({ database: real(), lock: `${real()}.lock` });
      lock?.release();
    }
    expect(existsSync(`${linked}.lock`)).toBe(linked.includes("linked"));
  }
});

test("a link to itself leads nowhere, and is not followed for ever", () => {
  symlinkSync("tollgate.db", path);
  expect(storeFiles(path).database).toBe(path);
  expect(() => openStore({ path, durability: "process", serving: true })).toThrow(StoreError);
});
