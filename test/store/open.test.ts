import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openStore, startWriter, takeInstanceLock } from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store.ts";
import { upgrade, versionsOf } from "../support/store/earlierVersion.ts";
import { fund } from "../support/store/storeFolder.ts";
import { amount } from "../support/sample.ts";

const storeModule = resolve(import.meta.dir, "../../src/store/open.ts");

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-open-"));
  path = join(folder, "tollgate.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(options: { serving?: boolean } = {}) {
  return openStore({ path, durability: "process", serving: options.serving ?? false });
}

/** Runs the text as a program of its own that knows the store and its path; returns what it printed. */
async function otherProcess(program: string): Promise<string> {
  const head = `import { openStore, takeInstanceLock } from ${JSON.stringify(storeModule)};
    const path = ${JSON.stringify(path)};`;
  const child = Bun.spawn([process.execPath, "-e", head + program], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return stdout + stderr;
}

describe("a new store", () => {
  test("is made by several processes at once, and every one of them can use it", async () => {
    const processes = amount(4, 8);
    const rounds = amount(8, 20);
    // In each round all of them wait until the last one is there.
    const program = `
      const { mkdirSync, readdirSync, writeFileSync } = await import("node:fs");
      for (let round = 0; round < ${rounds}; round++) {
        const arrived = path + ".arrived-" + round;
        mkdirSync(arrived, { recursive: true });
        writeFileSync(arrived + "/" + process.pid, "");
        while (readdirSync(arrived).length < ${processes}) Bun.sleepSync(0.2);
        try {
          const store = openStore({ path: path + round, durability: "process", serving: false });
          await store.admin.createAccount({ name: "tester", command: "test", at: 1 }, "account-" + process.pid, 0n);
          store.close();
        } catch (error) {
          console.log("round", round, String(error));
        }
      }`;
    const outputs = await Promise.all(
      Array.from({ length: processes }, () => otherProcess(program)),
    );
    expect(outputs).toEqual(Array.from({ length: processes }, () => ""));
    for (let round = 0; round < rounds; round++) {
      const store = openStore({ path: path + round, durability: "process", serving: false });
      expect(await store.accounts.list()).toHaveLength(processes);
      expect(await store.auditHere()).toMatchObject({
        accounts: processes,
        requests: 0,
        problems: [],
      });
      store.closeNow();
    }
  }, 60_000);

  test("and every file beside it can be read by its owner alone", async () => {
    const store = open();
    await fund(store, "alice", 5n);
    const lock = takeInstanceLock(path);
    const modes = readdirSync(folder).map((name) => [
      name,
      statSync(join(folder, name)).mode & 0o777,
    ]);
    lock?.release();
    store.closeNow();
    expect(Object.fromEntries(modes)).toEqual({
      "tollgate.db": 0o600,
      "tollgate.db-wal": 0o600,
      "tollgate.db-shm": 0o600,
      "tollgate.db.lock": 0o600,
      "tollgate.db.lock-journal": 0o600,
    });
  });

  test("is still itself when it is opened again", async () => {
    const first = open();
    await fund(first, "alice", 5n);
    first.closeNow();
    const second = open();
    expect((await second.accounts.find("alice"))?.balance).toBe(5n);
    second.closeNow();
  });
});

/** Makes a store whose pages are all in the one file, and overwrites bytes of it. */
function makeDamaged(from: number, to: number): void {
  const whole = join(folder, "whole.db");
  const store = openStore({ path: whole, durability: "process", serving: false });
  const sqlite = new Database(whole);
  sqlite.run(`VACUUM INTO '${path}'`);
  sqlite.close();
  store.closeNow();
  const bytes = readFileSync(path);
  bytes.fill(0xff, from, to);
  writeFileSync(path, bytes);
}

describe("a store that cannot be used is refused", () => {
  /** Opening throws; every byte in the folder is as before. */
  function refused(reason: string): void {
    const before = readFileSync(path);
    expect(() => open()).toThrow(StoreError);
    expect(() => open()).toThrow(reason);
    expect(readFileSync(path).equals(before)).toBe(true);
  }

  test("when it was written by a newer version", () => {
    open().closeNow();
    const sqlite = new Database(path);
    sqlite.run("PRAGMA user_version = 999");
    sqlite.close();
    refused("newer version");
  });

  test("when it is not a database", () => {
    writeFileSync(path, "precious text\n".repeat(1000));
    refused("damaged or not a database");
  });

  test("when its header is damaged", () => {
    makeDamaged(0, 16);
    refused("damaged or not a database");
  });

  test("when its tables are damaged", () => {
    makeDamaged(100, 4096);
    refused("damaged or not a database");
  });

  test("when it is not of the version that it says", () => {
    open().closeNow();
    const sqlite = new Database(path);
    sqlite.run(`PRAGMA user_version = ${versionsOf("sqlite")[0]}`);
    sqlite.close();
    const before = readFileSync(path);
    expect(upgrade(path)).rejects.toThrow(
      "database cannot be migrated to this version, and was not changed",
    );
    refused("database has the schema of an earlier version");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("when the disk fails under it, or a folder has the name of its log", () => {
    open().closeNow();
    mkdirSync(`${path}-journal`);
    refused("(SQLITE_IOERR_READ); its disk failed (see `dmesg`)");
  });

  test("when it belongs to another program", () => {
    const sqlite = new Database(path);
    sqlite.run("PRAGMA journal_mode = WAL");
    sqlite.run("CREATE TABLE places (url TEXT)");
    sqlite.close();
    refused("another program");
    const again = new Database(path, { readonly: true });
    expect(again.query("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "places" }]);
    again.close();
  });

  test("when its folder does not exist", () => {
    path = join(folder, "missing", "tollgate.db");
    expect(() => open()).toThrow(
      `there is no folder ${join(folder, "missing")} for the database: make it`,
    );
  });
});

describe("a store whose file", () => {
  test.each<[string, boolean, () => void]>([
    ["is left alone", false, () => {}],
    ["is written to", false, () => fund(open(), "alice", 5n)],
    ["is removed", true, () => rmSync(path)],
    ["is moved away", true, () => renameSync(path, `${path}.aside`)],
    [
      "is moved away and back",
      false,
      () => {
        renameSync(path, `${path}.aside`);
        renameSync(`${path}.aside`, path);
      },
    ],
    [
      "is replaced by a copy of itself",
      true,
      () => {
        copyFileSync(path, `${path}.copy`);
        renameSync(`${path}.copy`, path);
      },
    ],
    [
      "is replaced by a folder",
      true,
      () => {
        rmSync(path);
        mkdirSync(path);
      },
    ],
    [
      "goes with its folder",
      true,
      () => {
        rmSync(folder, { recursive: true });
        writeFileSync(folder, "");
      },
    ],
  ])("%s knows whether it has been lost: %j", (_, isLost, happen) => {
    const store = open();
    expect(store.isFileReplaced()).toBe(false);
    happen();
    expect(store.isFileReplaced()).toBe(isLost);
    store.closeNow();
  });
});

describe("the instance lock", () => {
  test("is had by one at a time, also after a forced garbage collection", async () => {
    const lock = takeInstanceLock(path);
    expect(lock).toBeDefined();
    for (let round = 0; round < 5; round++) {
      Bun.gc(true);
      await Bun.sleep(0);
    }
    const program = "console.log(takeInstanceLock(path) === undefined)";
    expect(await otherProcess(program)).toBe("true\n");
    expect(takeInstanceLock(path)).toBeUndefined();
    lock?.release();
    expect(await otherProcess(program)).toBe("false\n");
  });

  test("is free again once its holder is killed", async () => {
    const holder = Bun.spawn(
      [
        process.execPath,
        "-e",
        `import { takeInstanceLock } from ${JSON.stringify(storeModule)};
         globalThis.lock = takeInstanceLock(${JSON.stringify(path)});
         console.log(globalThis.lock !== undefined);
         setInterval(() => {}, 1000);`,
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const reader = holder.stdout.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("true\n");
    expect(takeInstanceLock(path)).toBeUndefined();
    holder.kill("SIGKILL");
    await holder.exited;
    const lock = takeInstanceLock(path);
    expect(lock).toBeDefined();
    lock?.release();
  });

  test("lets only its holder change the schema of a store that is in use", () => {
    const lock = takeInstanceLock(path);
    expect(() => open()).toThrow("restart the gateway first");
    open({ serving: true }).closeNow();
    open().closeNow();
    lock?.release();
  });

  test("lets the audit distinguish a hold in flight from a leaked one", async () => {
    const store = open();
    await fund(store, "alice", 5n);
    const sqlite = new Database(path);
    sqlite.run(`INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status,
      price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output,
      figures_price, hold)
      SELECT 'req_1', 0, account_id, id, 'chat', 'm', 0, 'running', 1, 1, 1, 1, 1, 0, 5 FROM keys`);
    sqlite.close();
    const lock = takeInstanceLock(path);
    expect(await store.auditHere()).toMatchObject({ problems: [], notes: [] });
    lock?.release();
    expect(await store.auditHere()).toMatchObject({
      problems: [],
      notes: ["request req_1: is set to interrupted when the gateway starts"],
    });
    store.closeNow();
  });
});

test("a writer that cannot open its store says so and can still be closed", async () => {
  writeFileSync(path, "precious text\n".repeat(1000));
  const { promise, resolve } = Promise.withResolvers<string>();
  const writer = startWriter({ path, durability: "process" }, resolve);
  expect(await promise).toContain("damaged or not a database");
  await writer.close();
});
