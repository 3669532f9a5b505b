import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { Database } from "bun:sqlite";
import { takeInstanceLock } from "../../src/store/open.ts";
import { fromSource, openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { openSampleLedger } from "../support/store/sampleLedger.ts";
import { until } from "../support/until.ts";

const commandsTimeoutMs = 60_000;

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
  const storeFolder = await openSampleLedger();
  const sqlite = new Database(storeFolder.path);
  sqlite.run("VACUUM INTO ?", [cli.database]);
  sqlite.close();
  await storeFolder.close();
});
afterEach(() => cli.remove());

/** The documents that show all records. */
const records = async () =>
  Promise.all(
    [
      ["accounts", "list"],
      ["balance", "history", "alice"],
      ["usage", "--by", "key"],
      ["requests"],
      ["audit"],
    ].map((args) => cli.json(...args)),
  );

test(
  "a restored store reports the same as the store that was backed up",
  async () => {
    const before = await records();
    const file = join(cli.folder, "night.db");
    const written = await cli.json("backup", "night.db");
    expect(written).toEqual({
      file,
      bytes: statSync(file).size,
      accounts: 2,
      requests: 4,
      ok: true,
    });
    await cli.json("balance", "credit", "bob", "5");
    expect(await records()).not.toEqual(before);
    expect(await cli.json("restore", "night.db")).toEqual({
      file,
      database: cli.database,
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
    expect(await records()).toEqual(before);
  },
  commandsTimeoutMs,
);

test(
  "backup and restore print how to restore, what is kept and what is lost",
  async () => {
    const { stdout: written } = await cli.run("backup", "night.db", "--config", "config.toml");
    const file = join(cli.folder, "night.db");
    expect(written.split("\n")).toEqual([
      `wrote ${file} (accounts: 2, requests: 4, bytes: ${statSync(file).size}); its ledger is consistent`,
      `to restore it: stop the gateway, then run tollgate restore ${file} --config config.toml`,
    ]);
    await cli.run("balance", "credit", "bob", "5");
    await cli.run("keys", "revoke", "key_bob");
    await cli.run("accounts", "disable", "bob");
    const { stdout: restored } = await cli.run("restore", "night.db");
    const kept = readdirSync(cli.folder).find((name) => name.includes("before-restore"));
    expect(restored.split("\n")).toEqual([
      `restored ${cli.database} from ${file} (accounts: 2, requests: 4)`,
      `the previous database is kept as ${cli.database.replace("tollgate.db", kept ?? "")}`,
      "that file also has what is newer than the backup: requests: 0, ledger rows: 1, changes by commands: 3",
      "works again since this restore: key key_bob, to revoke it: tollgate keys revoke key_bob",
      "works again since this restore: account bob, to disable it: tollgate accounts disable bob",
      "next: tollgate serve",
    ]);
  },
  commandsTimeoutMs,
);

describe("exits with 1 and prints one line with the advice", () => {
  const failing = async (message: string, ...args: readonly string[]) => {
    const { status, stdout, stderr } = await cli.run(...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^error: [^\p{C}]+$/u);
    expect(stderr).toContain(message);
  };

  test("for a damaged file, which is recorded so that a person is told", async () => {
    damagePage(cli.database, "requests");
    await failing("damaged or not a database", "backup", "night.db");
    await failing("damaged", "audit");
    const recorded = new Database(cli.database, { readonly: true });
    expect(recorded.query("SELECT subject, open FROM notices ORDER BY subject").values()).toEqual([
      ["audit", 1],
      ["backup", 1],
    ]);
    recorded.close();
  });

  test("for a backup to an existing file", async () => {
    writeFileSync(join(cli.folder, "taken"), "precious");
    await failing("exists already and was not changed: use another file name", "backup", "taken");
  });

  test("for a restore while a gateway runs", async () => {
    await cli.json("backup", "night.db");
    const lock = takeInstanceLock(cli.database);
    await failing("a gateway is running on this database", "restore", "night.db");
    lock?.release();
  });

  test("for a restore of a file that is not a backup, with a line end in its name", async () => {
    const name = "not\na backup";
    copyFileSync(cli.config, join(cli.folder, name));
    await failing("damaged or not a database", "restore", name);
  });
});

/** Overwrites the first page of a table, as a failing disk does. */
function damagePage(path: string, table: string): void {
  const sqlite = new Database(path);
  sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const read = (query: string): number => Number(sqlite.query(query).values()[0]?.[0]);
  const root = read(`SELECT rootpage FROM sqlite_schema WHERE name = '${table}'`);
  const size = read("PRAGMA page_size");
  sqlite.close();
  const file = openSync(path, "r+");
  writeSync(file, Buffer.alloc(size, 0xa5), 0, size, (root - 1) * size);
  closeSync(file);
}

/** Starts a backup that cannot finish, because `holder` locks the database. */
async function startBackup() {
  const holder = new Database(cli.database);
  holder.run("PRAGMA journal_mode = DELETE");
  holder.run("BEGIN EXCLUSIVE");
  const child = Bun.spawn([...fromSource, "backup", "night.db"], {
    cwd: cli.folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  await until("the copy has started", () => partials().length > 0);
  return { holder, child };
}

const partials = () => readdirSync(cli.folder).filter((name) => name.includes("night"));

test.each([
  [
    "backup",
    "program: pg_dump --format=custom --file=FILE 'postgres://gate@db/toll?sslmode=require'",
  ],
  [
    "restore",
    "program into an empty database, while no gateway runs: pg_restore --exit-on-error --dbname='postgres://gate@db/toll?sslmode=require' FILE",
  ],
])(
  "%s of a PostgreSQL database shows the command to use, without password",
  async (command, own) => {
    const url = '[database]\nurl = "postgres://gate:canary@db/toll?sslmode=require"\n';
    writeFileSync(cli.config, url, { mode: 0o600 });
    expect(await cli.run(command, "night.dump")).toEqual({
      status: 1,
      stdout: "",
      stderr: `error: \`tollgate ${command}\` is for SQLite files: use PostgreSQL's own ${own.replace("FILE", join(cli.folder, "night.dump"))}; docs/run/fleet.md has the steps`,
    });
  },
);

test.each(["SIGINT", "SIGTERM"] as const)(
  "a backup that %s stops leaves no file",
  async (signal) => {
    const { holder, child } = await startBackup();
    child.kill(signal);
    expect(await child.exited).toBe(1);
    expect(await child.stderr.text()).toBe("error: stopped: nothing was changed\n");
    expect(partials()).toEqual([]);
    holder.close();
  },
);

test(
  "a backup removes the partial copy of a backup that was killed a day earlier",
  async () => {
    const { holder, child } = await startBackup();
    child.kill("SIGKILL");
    await child.exited;
    holder.close();
    const [left = ""] = partials();
    await cli.json("backup", "night-2.db");
    expect(partials().toSorted()).toEqual(["night-2.db", left].toSorted());
    const yesterday = Date.now() / 1000 - 24 * 3600;
    utimesSync(join(cli.folder, left), yesterday, yesterday);
    await cli.json("backup", "night-3.db");
    expect(partials().toSorted()).toEqual(["night-2.db", "night-3.db"]);
  },
  commandsTimeoutMs,
);
