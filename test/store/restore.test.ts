import { Database } from "bun:sqlite";
import { beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { backUp, openStore, restore, takeInstanceLock } from "../../src/store/open.ts";
import type { Actor } from "../../src/store/store.ts";
import { testAsRoot } from "../support/binary/otherUser.ts";
import { makeEmptyVersion, versionsOf } from "../support/store/earlierVersion.ts";
import { actor, ended, fund, type Owner } from "../support/store/storeFolder.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";
import { lastRows, rowsNewerThan } from "../../src/store/sqlite/backup/verifiedCopy.ts";

const never = new Promise<void>(() => undefined);
const [OF_020 = 0] = versionsOf("sqlite");
const keptAs = "tollgate.db.before-restore-20260101T000000.000Z";

const storeFolder = openSampleLedgerBefore();
/** A backup of the sample ledger. */
let file: string;
/** Another folder, in which a restore is to happen. */
let folder: string;
let target: string;
beforeEach(async () => {
  file = join(storeFolder.folder, "copy.db");
  await backUp({ database: storeFolder.path, file, stopped: never });
  folder = join(storeFolder.folder, "other");
  mkdirSync(folder);
  target = join(folder, "tollgate.db");
});

const restored = (stopped = never, by: Actor = actor) =>
  restore({ database: target, file, actor: by, stopped });

/** Puts a store there that has one account, carol. It was never open there: what is closed may stay open until a collection. */
async function makeTarget(): Promise<void> {
  const made = join(storeFolder.folder, "made.db");
  const store = openStore({ path: made, durability: "process", serving: true });
  await fund(store, "carol", 7n);
  store.closeNow();
  const sqlite = new Database(made);
  sqlite.run("VACUUM INTO ?", [target]);
  sqlite.close();
}

/** Its accounts after an audit; read in a copy. */
async function names(path: string): Promise<readonly string[]> {
  expect(existsSync(`${path}-wal`)).toBe(false);
  const copy = join(storeFolder.folder, `looked-${++looks}.db`);
  copyFileSync(path, copy);
  const store = openStore({ path: copy, durability: "process", serving: true });
  expect((await store.auditHere()).problems).toEqual([]);
  const found = (await store.accounts.list()).map(({ name }) => name);
  store.closeNow();
  return found;
}
let looks = 0;

describe("a restore", () => {
  test("puts the backup in the place of the database, keeps that, and only reads the backup", async () => {
    await makeTarget();
    const before = [readFileSync(file), statSync(file).mtimeMs];
    expect(await restored()).toEqual({
      accounts: 2,
      requests: 4,
      kept: join(realpathSync(folder), keptAs),
      newer: undefined,
      reactivated: { keys: [], accounts: [] },
    });
    expect([readFileSync(file), statSync(file).mtimeMs]).toEqual(before);
    expect(readdirSync(folder).sort()).toEqual(["tollgate.db", keptAs, "tollgate.db.lock"]);
    // With a second name a gateway would not take any of them for its database.
    const kept = join(folder, keptAs);
    expect([file, target, kept].map((path) => statSync(path).nlink)).toEqual([1, 1, 1]);
    expect(await names(target)).toEqual(["alice", "bob"]);
    expect(await names(join(folder, keptAs))).toEqual(["carol"]);
  });

  test("counts what was done after the backup, and the kept one can be restored in its turn", async () => {
    await fund(storeFolder.store, "carol", 7n);
    await storeFolder.record(ended("req_new", await alice()));
    await backUp({ database: storeFolder.path, file: target, stopped: never });
    const { kept = "", newer } = await restored();
    // A key was made, and money credited.
    expect(newer).toEqual({ requests: 1, ledgerRows: 2, adminLogRows: 2 });
    expect(await names(target)).toEqual(["alice", "bob"]);
    file = kept;
    const again = await restored(never, { ...actor, at: actor.at + 1000 });
    expect(again.newer).toBeUndefined();
    expect(await names(target)).toEqual(["alice", "bob", "carol"]);
  });

  test("names the keys and accounts that work again, and none that still do, or still do not", async () => {
    const { admin } = storeFolder.store;
    await fund(storeFolder.store, "dora", 1n);
    await fund(storeFolder.store, "alice", 0n, { name: "graced", budget: null });
    await admin.revokeKey(actor, "key_dora");
    rmSync(file);
    await backUp({ database: storeFolder.path, file, stopped: never });
    await admin.revokeKey(actor, "key_alice");
    await admin.changeKey(actor, "key_graced", { expiresAt: actor.at });
    await admin.changeKey(actor, "key_bob", { expiresAt: actor.at + 1 });
    await admin.setDisabled(actor, "bob", true);
    await fund(storeFolder.store, "alice", 0n, { name: "late", budget: null });
    await admin.revokeKey(actor, "key_late");
    await backUp({ database: storeFolder.path, file: target, stopped: never });
    expect(await restored()).toMatchObject({
      newer: { requests: 0, ledgerRows: 0, adminLogRows: 6 },
      reactivated: { keys: ["key_alice", "key_graced"], accounts: ["bob"] },
    });
  });

  test("is entered in the admin log of what is restored", async () => {
    await restored();
    const sqlite = new Database(target);
    const rows = sqlite.query("SELECT * FROM admin_log ORDER BY id DESC LIMIT 1").all();
    sqlite.close();
    expect(rows).toEqual([
      {
        id: expect.any(Number),
        at: actor.at,
        actor: "tester",
        command: "test",
        subject: file,
        detail: null,
      },
    ]);
  });

  test("needs no database to be there", async () => {
    expect(await restored()).toMatchObject({ kept: undefined, newer: undefined });
    expect(readdirSync(folder).sort()).toEqual(["tollgate.db", "tollgate.db.lock"]);
    expect(await names(target)).toEqual(["alice", "bob"]);
  });

  test("follows a link that is the database's name, which stays one", async () => {
    await makeTarget();
    renameSync(target, join(folder, "real.db"));
    symlinkSync("real.db", target);
    await restored();
    expect(realpathSync(target)).toBe(join(realpathSync(folder), "real.db"));
    expect(await names(target)).toEqual(["alice", "bob"]);
  });

  test("brings a backup of an earlier version to this one", async () => {
    rmSync(file);
    makeEmptyVersion(file, OF_020, (sqlite) => {
      sqlite.run("INSERT INTO accounts (name, created_at) VALUES ('dora', 0)");
    });
    await restored();
    expect(await names(target)).toEqual(["dora"]);
  });

  test("leaves files that their owner alone can open, also of one that everybody could", async () => {
    await makeTarget();
    chmodSync(target, 0o644);
    chmodSync(file, 0o644);
    await restored();
    const modes = readdirSync(folder).map((name) => statSync(join(folder, name)).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600, 0o600]);
  });

  testAsRoot("by root leaves them to the database's owner", async () => {
    await makeTarget();
    chownSync(target, 4242, 4343);
    await restored();
    const owners = readdirSync(folder).map((name) => statSync(join(folder, name)).uid);
    expect(owners).toEqual([4242, 4242, 4242]);
  });

  test("keeps a damaged database too", async () => {
    writeFileSync(target, "precious text\n".repeat(1000));
    expect(await restored()).toMatchObject({ newer: undefined, reactivated: undefined });
    expect(readFileSync(join(folder, keptAs), "utf8")).toBe("precious text\n".repeat(1000));
    expect(await names(target)).toEqual(["alice", "bob"]);
  });

  test("takes no log that was left without its database for the new one's", async () => {
    writeFileSync(`${target}-wal`, readFileSync(`${storeFolder.path}-wal`));
    await restored();
    expect(await names(target)).toEqual(["alice", "bob"]);
  });
});

/** Nothing in the folder changes, nor does the backup. */
async function refuses(message: string | RegExp): Promise<void> {
  const list = () =>
    readdirSync(folder)
      .filter((name) => !name.includes(".lock"))
      .sort();
  const before = [list(), readFileSync(target)];
  expect(await restored().catch(String)).toMatch(message);
  expect([list(), readFileSync(target)]).toEqual(before);
}

function change(...statements: readonly string[]): void {
  const sqlite = new Database(file);
  for (const statement of statements) sqlite.run(statement);
  sqlite.close();
}

describe("nothing is restored, and nothing touched,", () => {
  test.each<[string, string | RegExp, () => unknown]>([
    ["from nothing", "there is no file", () => rmSync(file)],
    ["from a folder", "is no file", () => (file = folder)],
    ["from the database itself", "is the database itself", () => (file = target)],
    [
      "from the database itself by a link",
      "is the database itself",
      () => {
        rmSync(file);
        symlinkSync(target, file);
      },
    ],
    ["from an empty file", "not a database of tollgate", () => truncateSync(file)],
    ["from text", "damaged or not a database", () => writeFileSync(file, "text\n".repeat(2000))],
    ["from half a backup", "damaged or not a database", () => truncateSync(file, 4096 * 12)],
    [
      "from a damaged backup",
      "damaged or not a database",
      () => {
        const bytes = readFileSync(file);
        bytes.fill(0xff, 4096 * 8, 4096 * 9);
        writeFileSync(file, bytes);
      },
    ],
    [
      "from a backup with one changed amount",
      "the records of",
      () => change("UPDATE keys SET spent = spent + 5"),
    ],
    ["from one without a trigger", "is missing", () => change("DROP TRIGGER ledger_keeps")],
    [
      "from one with another trigger",
      "trigger mine",
      () => change("CREATE TRIGGER mine AFTER INSERT ON admin_log BEGIN SELECT 1; END"),
    ],
    ["from a newer version's", "newer version", () => change("PRAGMA user_version = 999")],
    [
      "from one whose log lies beside it",
      "a part of its data is in",
      () => writeFileSync(`${file}-wal`, "x"),
    ],
  ])("%s: %s", async (_, message, prepare) => {
    await makeTarget();
    prepare();
    await refuses(message);
    expect(await names(target)).toEqual(["carol"]);
  });

  test("while a gateway runs", async () => {
    await makeTarget();
    const lock = takeInstanceLock(target);
    await refuses("a gateway is running on this database");
    lock?.release();
  });

  test("when it is stopped in time", async () => {
    await makeTarget();
    expect(await restored(Promise.resolve()).catch(String)).toContain(
      "stopped: nothing was changed",
    );
    expect(readdirSync(folder).sort()).toEqual(["tollgate.db", "tollgate.db.lock"]);
  });

  test("where the old one cannot be kept", async () => {
    await makeTarget();
    writeFileSync(join(folder, keptAs), "precious");
    expect(await restored().catch(String)).toContain("that name is taken; move it away");
    expect(readdirSync(folder).sort()).toEqual(["tollgate.db", keptAs, "tollgate.db.lock"]);
    expect(readFileSync(join(folder, keptAs), "utf8")).toBe("precious");
    expect(await names(target)).toEqual(["carol"]);
  });

  test("behind a link that leads nowhere", async () => {
    symlinkSync("nowhere", target);
    expect(await restored().catch(String)).toContain("is a link to a file that is not there");
    expect(readdirSync(folder)).toEqual(["tollgate.db"]);
  });
});

test("a request that was folded after it was charged still counts as newer, and an older one does not", async () => {
  const { store, writer, path } = storeFolder;
  const sqlite = new Database(path, { readonly: true, safeIntegers: true, strict: true });
  const end = lastRows(sqlite);
  for (const [id, at] of [
    ["req_folded", actor.at],
    ["req_kept", actor.at + 5000],
  ] as const) {
    await storeFolder.record(ended(id, await alice(), { at }));
  }
  expect(rowsNewerThan(sqlite, end)).toEqual({ requests: 2, ledgerRows: 2, adminLogRows: 0 });
  await writer.write({ kind: "fold", before: actor.at + 1 });
  expect(await store.requests.find("req_folded")).toBeUndefined();
  expect(rowsNewerThan(sqlite, end)).toEqual({ requests: 2, ledgerRows: 2, adminLogRows: 0 });
  expect((await store.auditHere()).problems).toEqual([]);
  sqlite.close();
});

/** The owner of alice's first key. */
async function alice(): Promise<Owner> {
  const [key] = await storeFolder.store.keys.list("alice");
  const { accountId = 0, id = 0 } = key ?? {};
  return { accountId, keyId: id, firstKeyId: id };
}
