import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Database } from "bun:sqlite";
import { openStore, takeInstanceLock } from "../../src/store/store.ts";
import { fromSource, openDesk, type Desk } from "../support/binary/cli.ts";
import { openAuditedBooks } from "../support/store/auditedBooks.ts";
import { fund } from "../support/store/storeFolder.ts";
import { until } from "../support/until.ts";

/** A command takes a tenth of a second, on a machine that has nothing else to do. */
const commandsTimeoutMs = 30_000;

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk();
  const storeFolder = await openAuditedBooks();
  const sqlite = new Database(storeFolder.path);
  sqlite.run("VACUUM INTO ?", [desk.database]);
  sqlite.close();
  await storeFolder.close();
});
afterEach(() => desk.remove());

/** All that people read of the books. */
const told = async () =>
  Promise.all(
    [
      ["accounts", "list"],
      ["balance", "history", "alice"],
      ["usage", "--by", "key"],
      ["requests"],
      ["audit"],
    ].map((args) => desk.json(...args)),
  );

test(
  "a restored store reports the same as the store that was backed up",
  async () => {
    const before = await told();
    const file = join(desk.folder, "night.db");
    const written = await desk.json("backup", "night.db");
    expect(written).toEqual({
      file,
      bytes: statSync(file).size,
      accounts: 2,
      requests: 4,
      ok: true,
    });
    await desk.json("balance", "credit", "bob", "5");
    expect(await told()).not.toEqual(before);
    expect(await desk.json("restore", "night.db")).toEqual({
      file,
      database: desk.database,
      kept: expect.stringMatching(/\/tollgate\.db\.before-restore-\d{8}T\d{6}\.\d{3}Z$/),
      accounts: 2,
      requests: 4,
      newer_requests: 0,
      newer_ledger_rows: 1,
      newer_admin_log_rows: 1,
      revived_keys: [],
      enabled_accounts: [],
      ok: true,
    });
    expect(await told()).toEqual(before);
  },
  commandsTimeoutMs,
);

test(
  "backup and restore print how to restore, what is kept and what is lost",
  async () => {
    const { stdout: written } = await desk.run("backup", "night.db", "--config", "config.toml");
    const file = join(desk.folder, "night.db");
    expect(written.split("\n")).toEqual([
      `wrote ${file} (accounts: 2, requests: 4, bytes: ${statSync(file).size}); its ledger is consistent`,
      `to restore it: stop the gateway, then run tollgate restore ${file} --config config.toml`,
    ]);
    await desk.run("balance", "credit", "bob", "5");
    await desk.run("keys", "revoke", "key_bob");
    await desk.run("accounts", "disable", "bob");
    const { stdout: restored } = await desk.run("restore", "night.db");
    const kept = readdirSync(desk.folder).find((name) => name.includes("before-restore"));
    expect(restored.split("\n")).toEqual([
      `restored ${desk.database} from ${file} (accounts: 2, requests: 4)`,
      `the previous database is kept as ${desk.database.replace("tollgate.db", kept ?? "")}`,
      "that file also has what is newer than the backup: requests: 0, ledger rows: 1, changes by commands: 3",
      "works again since this restore: key key_bob, to revoke it: tollgate keys revoke key_bob",
      "works again since this restore: account bob, to disable it: tollgate accounts disable bob",
      "next: tollgate serve",
    ]);
  },
  commandsTimeoutMs,
);

test(
  "restore prints one command for all keys and accounts that work again",
  async () => {
    const store = openStore({ path: desk.database, durability: "process", serving: false });
    const actor = { name: "alice", at: Date.now() };
    const names = Array.from({ length: 12 }, (_, at) => `many-${at}`);
    for (const name of names) fund(store, name, 0n);
    await desk.json("backup", "night.db");
    for (const name of names) {
      store.admin.revokeKey(actor, `key_${name}`);
      store.admin.setDisabled(actor, name, true);
    }
    store.close();
    const { stdout } = await desk.run("restore", "night.db", "--config", "config.toml");
    expect(stdout.split("\n").filter((line) => line.includes("works again"))).toEqual([
      `works again since this restore: 12 keys, to undo that: for name in ${names.map((name) => `key_${name}`).join(" ")}; do tollgate keys revoke --config config.toml "$name"; done`,
      `works again since this restore: 12 accounts, to undo that: for name in ${names.toSorted().join(" ")}; do tollgate accounts disable --config config.toml "$name"; done`,
    ]);
  },
  commandsTimeoutMs,
);

describe("ends with status 1 and one line that says what to do", () => {
  const failing = async (message: string, ...args: readonly string[]) => {
    const { status, stdout, stderr } = await desk.run(...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^error: [^\p{C}]+$/u);
    expect(stderr).toContain(message);
  };

  test("a backup to a name that is taken", async () => {
    writeFileSync(join(desk.folder, "taken"), "precious");
    await failing("exists already and was not changed: use another file name", "backup", "taken");
  });

  test("a restore while a gateway runs", async () => {
    await desk.json("backup", "night.db");
    const lock = takeInstanceLock(desk.database);
    await failing("a gateway is running on this database", "restore", "night.db");
    lock?.release();
  });

  test("a restore of what is no backup, whose name has a line end", async () => {
    const name = "not\na backup";
    copyFileSync(desk.config, join(desk.folder, name));
    await failing("damaged or not a database", "restore", name);
  });
});

/** Nobody can read the database as long as the result is open, so that a backup waits, and is begun. */
async function beginBackup() {
  const holder = new Database(desk.database);
  holder.run("PRAGMA journal_mode = DELETE");
  holder.run("BEGIN EXCLUSIVE");
  const child = Bun.spawn([...fromSource, "backup", "night.db"], {
    cwd: desk.folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  await until("the copy is begun", () => partials().length > 0);
  return { holder, child };
}

const partials = () => readdirSync(desk.folder).filter((name) => name.includes("night"));

test.each(["SIGINT", "SIGTERM"] as const)(
  "a backup that %s stops leaves nothing behind",
  async (signal) => {
    const { holder, child } = await beginBackup();
    child.kill(signal);
    expect(await child.exited).toBe(1);
    expect(await child.stderr.text()).toBe("error: stopped: nothing was changed\n");
    expect(partials()).toEqual([]);
    holder.close();
  },
);

test(
  "a backup removes what a killed backup left a day earlier",
  async () => {
    const { holder, child } = await beginBackup();
    child.kill("SIGKILL");
    await child.exited;
    holder.close();
    const [left = ""] = partials();
    await desk.json("backup", "night-2.db");
    expect(partials().toSorted()).toEqual(["night-2.db", left].toSorted());
    const yesterday = Date.now() / 1000 - 24 * 3600;
    utimesSync(join(desk.folder, left), yesterday, yesterday);
    await desk.json("backup", "night-3.db");
    expect(partials().toSorted()).toEqual(["night-2.db", "night-3.db"]);
  },
  commandsTimeoutMs,
);
