import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { holdDatabase, replaceDatabase } from "../../src/store/sqlite/backup/replaceDatabase.ts";
import { openStore } from "../../src/store/open.ts";
import { actor, fund } from "../support/store/storeFolder.ts";
import { until } from "../support/until.ts";

const sources = resolve(import.meta.dir, "../../src/store");

const waitMs = 5000;

let folder: string;
let place: { target: string; copy: string; kept: string };
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-replace-"));
  const target = join(folder, "tollgate.db");
  place = { target, copy: `${target}.partial`, kept: `${target}.kept` };
  await makeOne("new", place.copy);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A store in one file that has one account of this name. */
async function makeOne(name: string, path: string): Promise<void> {
  const made = join(folder, "made.db");
  const store = openStore({ path: made, durability: "process", serving: true });
  await fund(store, name, 7n);
  store.closeNow();
  const sqlite = new Database(made);
  sqlite.run("VACUUM INTO ?", [path]);
  sqlite.close();
  for (const suffix of ["", "-wal", "-shm"]) rmSync(made + suffix, { force: true });
}

/** Beyond 8 KB, which is less than SQLite's index of its log takes: a disk that is quite full. */
const NO_FILE_GROWS = ["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$0" "$@"'];

/** Runs the text as a program of its own that knows the store, `place` and `actor`. */
function otherProcess(program: string, runner: readonly string[] = []) {
  const head = `
    import { holdDatabase, replaceDatabase } from "${sources}/sqlite/backup/replaceDatabase.ts";
    import { openStore } from "${sources}/open.ts";
    const place = ${JSON.stringify(place)};
    const actor = ${JSON.stringify(actor)};
    const open = () => openStore({ path: place.target, durability: "power", serving: false });`;
  return Bun.spawn([...runner, process.execPath, "-e", head + program], {
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** The accounts of a store that passes its audit, with its WAL, read in a copy. */
async function names(path: string): Promise<readonly string[]> {
  const copy = join(folder, "looked.db");
  for (const suffix of ["", "-wal", "-shm"]) {
    rmSync(copy + suffix, { force: true });
    if (suffix !== "-shm" && existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
  }
  const store = openStore({ path: copy, durability: "process", serving: true });
  expect((await store.auditHere()).problems).toEqual([]);
  const found = (await store.accounts.list()).map(({ name }) => name);
  store.closeNow();
  return found;
}

/** Makes the old one as a crash leaves it: what was committed last is in its log alone. */
async function makeOld(): Promise<void> {
  await makeOne("old", place.target);
  const program = `
    await open().admin.createAccount(actor, "late", 0n);
    process.kill(process.pid, "SIGKILL");`;
  await otherProcess(program).exited;
  expect(existsSync(`${place.target}-wal`)).toBe(true);
}

describe("a process that is killed", () => {
  test.each([
    [0, ["late", "old"]],
    [1, ["late", "old"]],
    [2, ["late", "old"]],
    [3, ["new"]],
  ] as const)(
    "behind step %i of the replacing leaves a whole store, and loses nothing of the old one",
    async (steps, expected) => {
      await makeOld();
      const program = `
        const held = holdDatabase(place.target, ${waitMs});
        const steps = replaceDatabase(place);
        for (let step = 0; step < ${steps}; step++) if (steps.next().done) throw new Error("too few steps");
        process.kill(process.pid, "SIGKILL");`;
      const child = otherProcess(program);
      expect(await child.exited, await child.stderr.text()).toBe(137);
      expect(await names(place.target)).toEqual([...expected]);
      if (steps > 0) expect(await names(place.kept)).toEqual(["late", "old"]);
    },
  );
});

test("a database that cannot be read is kept with its log, of which the new one gets nothing", async () => {
  writeFileSync(place.target, "old");
  writeFileSync(`${place.target}-wal`, "its log");
  const states: unknown[] = [];
  for (const _ of replaceDatabase(place)) {
    const log = existsSync(`${place.target}-wal`);
    states.push({ isOld: readFileSync(place.target, "latin1") === "old", log });
    expect(readFileSync(`${place.kept}-wal`, "utf8")).toBe("its log");
    expect(readFileSync(place.kept, "utf8")).toBe("old");
  }
  expect(states).toEqual([
    { isOld: true, log: true },
    { isOld: true, log: false },
    { isOld: false, log: false },
  ]);
  expect(await names(place.target)).toEqual(["new"]);
});

describe("a command that is at the old database", () => {
  test("is waited for", async () => {
    await makeOne("old", place.target);
    const child = otherProcess(`
      const store = open();
      await store.admin.createAccount(actor, "late", 0n);
      console.log("open");
      setTimeout(() => process.exit(0), 500);`);
    await child.stdout.getReader().read();
    const held = holdDatabase(place.target, waitMs);
    expect(child.exitCode ?? (await child.exited)).toBe(0);
    for (const _ of replaceDatabase(place));
    held.release();
    expect([await names(place.kept), await names(place.target)]).toEqual([
      ["late", "old"],
      ["new"],
    ]);
  });

  test("and stays longer than one waits is not robbed of it", async () => {
    await makeOne("old", place.target);
    const child = otherProcess(`
      const store = open();
      await store.accounts.list();
      console.log("open");
      await new Promise((resolve) => process.stdin.once("data", resolve));
      process.exit(0);`);
    await child.stdout.getReader().read();
    expect(() => holdDatabase(place.target, 300)).toThrow("in use by another program");
    child.kill("SIGKILL");
    await child.exited;
    expect(await names(place.target)).toEqual(["old"]);
  }, 60_000);

  test("when it is replaced fails, or has changed the new one: never the log of the new one", async () => {
    await makeOne("old", place.target);
    const held = holdDatabase(place.target, waitMs);
    const children = Array.from({ length: 4 }, (_, at) =>
      otherProcess(`
        console.log("opening");
        try {
          await open().admin.createAccount(actor, "late-${at}", 0n);
          console.log("done");
        } catch (error) {
          console.log(error.message);
        }
        process.exit(0);`),
    );
    const outputs = children.map(() => "");
    const ends = children.map(async (child, at) => {
      for await (const bytes of child.stdout) outputs[at] += new TextDecoder().decode(bytes);
    });
    await until("all are at it", () => outputs.every((text) => text !== ""));
    // They wait for the lock by now, or come too late to meet the old one: both are right.
    await Bun.sleep(100);
    for (const _ of replaceDatabase(place));
    const gateway = openStore({ path: place.target, durability: "power", serving: true });
    await gateway.admin.createAccount(actor, "served", 0n);
    held.release();
    await Promise.all(ends);
    const done = outputs.flatMap((text, at) => (text.includes("done") ? [`late-${at}`] : []));
    const failed = outputs.filter((text) => /replaced|not writable/.test(text));
    expect(done.length + failed.length, outputs.join("")).toBe(children.length);
    expect((await gateway.auditHere()).problems).toEqual([]);
    const accounts = (await gateway.accounts.list()).map(({ name }) => name);
    expect(accounts.toSorted()).toEqual(["new", "served", ...done].toSorted());
    expect(await names(place.kept)).toEqual(["old"]);
    gateway.closeNow();
  }, 60_000);
});

test("a whole database is not taken for a damaged one where the disk has no room for the index of its log", async () => {
  await makeOne("old", place.target);
  const sqlite = new Database(place.target);
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.close();
  const child = otherProcess(
    `
      try {
        holdDatabase(place.target, ${waitMs});
        console.log("held");
      } catch (error) {
        console.log(error.message);
      }
      process.exit(0);`,
    NO_FILE_GROWS,
  );
  expect(await child.stdout.text()).toBe(
    `database has no room left on its disk: ${place.target}\n`,
  );
  expect(await names(place.target)).toEqual(["old"]);
});

test("nothing is held where there is nothing", () => {
  holdDatabase(place.target, waitMs).release();
  expect(readdirSync(folder)).toEqual(["tollgate.db.partial"]);
});
