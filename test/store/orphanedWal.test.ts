import { beforeEach, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import {
  backUp,
  inspectStore,
  openStore,
  restore,
  type SqliteStore,
} from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store.ts";
import { actor, fund } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const never = new Promise<void>(() => undefined);

const storeFolder = openStoreBefore({ audited: false });
/** What a crash leaves: a database, and a log with what was committed last. */
let path: string;
beforeEach(async () => {
  await fund(storeFolder.store, "alice", 7n);
  mkdirSync(join(storeFolder.folder, "crashed"));
  path = join(storeFolder.folder, "crashed", "tollgate.db");
  for (const suffix of ["", "-wal"]) copyFileSync(storeFolder.path + suffix, path + suffix);
});

const open = (at = path): SqliteStore =>
  openStore({ path: at, durability: "process", serving: false });

const losses: readonly (readonly [string, () => void])[] = [
  ["away", () => rmSync(path)],
  ["empty", () => writeFileSync(path, "")],
];

describe.each(losses)("a log whose database is %s", (_, lose) => {
  test("is not thrown away by whoever asks for the database, and is all there when that is back", async () => {
    const database = readFileSync(path);
    const log = readFileSync(`${path}-wal`);
    lose();
    const before = readdirSync(join(path, ".."));
    for (const ask of [() => open(), () => inspectStore(path)]) {
      expect(ask).toThrow(StoreError);
      expect(ask).toThrow(`its log ${path}-wal is not: put the database back beside its log`);
    }
    expect(readdirSync(join(path, ".."))).toEqual(before);
    expect(readFileSync(`${path}-wal`).equals(log)).toBe(true);
    writeFileSync(path, database);
    const store = open();
    expect((await store.accounts.find("alice"))?.balance).toBe(7n);
    expect((await store.auditHere()).problems).toEqual([]);
    store.closeNow();
  });

  test("is kept by a restore, which says so", async () => {
    const log = readFileSync(`${path}-wal`);
    const file = join(storeFolder.folder, "night.db");
    await backUp({ database: storeFolder.path, file, stopped: never });
    lose();
    const { kept, newer } = await restore({ database: path, file, actor, stopped: never });
    expect(kept).toBe(`${path}.before-restore-20260101T000000.000Z-wal`);
    expect(newer).toBeUndefined();
    expect(readFileSync(kept ?? "").equals(log)).toBe(true);
    expect(existsSync(`${path}-wal`)).toBe(false);
  });
});

test("a log is found beside the database itself, where a link leads to it", () => {
  const link = join(storeFolder.folder, "link.db");
  symlinkSync(path, link);
  rmSync(path);
  expect(() => open(link)).toThrow("put the database back");
});

test("a new database can be made beside an empty log", () => {
  rmSync(path);
  writeFileSync(`${path}-wal`, "");
  const store = open();
  expect(store.isNew).toBe(true);
  store.closeNow();
  const again = open();
  expect(again.isNew).toBe(false);
  again.closeNow();
});
