import { Database } from "bun:sqlite";
import { beforeEach, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { backUp, inspectStore, openStore } from "../../src/store/open.ts";
import { makeEmptyVersion, versionsOf } from "../support/store/earlierVersion.ts";
import { running } from "../support/store/storeFolder.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const storeModule = resolve(import.meta.dir, "../../src/store/open.ts");
const never = new Promise<void>(() => undefined);
const [OF_020 = 0] = versionsOf("sqlite");

const storeFolder = openSampleLedgerBefore();
let file: string;
beforeEach(() => {
  file = join(storeFolder.folder, "copy.db");
});

const back = (to = file, database = storeFolder.path) =>
  backUp({ database, file: to, stopped: never });

/** All that a file holds, and the statements that made it. */
function contentOf(path: string): unknown {
  const sqlite = new Database(path, { safeIntegers: true });
  const schema = sqlite
    .query<{ type: string; name: string; sql: string }, []>(
      "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name",
    )
    .all();
  const tables = schema.filter(({ type }) => type === "table");
  const rows = tables.map(({ name }) => sqlite.query(`SELECT * FROM ${name}`).all());
  const version = sqlite.query("PRAGMA user_version").get();
  sqlite.close();
  return { schema, rows, version };
}

/** What lies in the folder, but for what SQLite and the instance lock have there. */
function others(): readonly string[] {
  const own = ["", "-wal", "-shm", ".lock", ".lock-journal"].map(
    (suffix) => `tollgate.db${suffix}`,
  );
  return readdirSync(storeFolder.folder).filter((name) => !own.includes(name));
}

describe("a backup", () => {
  test("has every row, constraint, trigger and index, and the version, while a gateway is at it", async () => {
    const [key] = await storeFolder.store.keys.list("bob");
    const { accountId = 0, id = 0 } = key ?? {};
    await storeFolder.record(running("req_open", { accountId, keyId: id, firstKeyId: id }));
    expect(await back()).toEqual({ bytes: statSync(file).size, accounts: 2, requests: 5 });
    expect(contentOf(file)).toEqual(contentOf(storeFolder.path));
    expect(others()).toEqual(["copy.db"]);
  });

  test("can be opened by its owner alone, from its first byte on, whatever the umask", async () => {
    const program = `
      import { backUp } from ${JSON.stringify(storeModule)};
      process.umask(0);
      const stopped = new Promise(() => undefined);
      await backUp({ database: ${JSON.stringify(storeFolder.path)}, file: ${JSON.stringify(file)}, stopped });`;
    const child = Bun.spawn([process.execPath, "-e", program], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    const seen = new Map<string, number>();
    while (child.exitCode === null) {
      for (const name of others()) {
        const mode = statSync(join(storeFolder.folder, name), { throwIfNoEntry: false })?.mode;
        if (mode !== undefined) seen.set(name, (seen.get(name) ?? 0) | (mode & 0o777));
      }
      await Bun.sleep(0);
    }
    expect(await child.exited).toBe(0);
    expect(seen.size).toBeGreaterThan(1);
    expect([...new Set(seen.values())]).toEqual([0o600]);
  });

  test("of an earlier version's store is audited too, and neither is brought to this version", async () => {
    const old = join(storeFolder.folder, "old.db");
    makeEmptyVersion(old, OF_020, (sqlite) => {
      sqlite.run("INSERT INTO accounts (name, created_at) VALUES ('alice', 0)");
    });
    const before = contentOf(old);
    expect(await back(file, old)).toMatchObject({ accounts: 1, requests: 0 });
    expect([contentOf(old), contentOf(file)]).toEqual([before, before]);
    rmSync(file);
    const sqlite = new Database(old);
    sqlite.run("DROP TRIGGER ledger_keeps");
    sqlite.close();
    await refuses("trigger ledger_keeps is missing", file, old);
  });
});

/** Nothing is written, and no file remains. */
async function refuses(message: string, to = file, database = storeFolder.path): Promise<void> {
  const before = others();
  expect(await back(to, database).catch(String)).toContain(message);
  expect(others()).toEqual(before);
}

describe("no backup is made", () => {
  test.each<[string, string, () => unknown]>([
    ["that takes the place of a file", "exists already", () => writeFileSync(file, "precious")],
    ["that takes the place of a folder", "exists already", () => mkdirSync(file)],
    ["behind a link that leads nowhere", "exists already", () => symlinkSync("nowhere", file)],
    ["in a folder that is not there", "there is no folder", () => (file = join(file, "a.db"))],
    ["of itself", "belongs to the database itself", () => (file = storeFolder.path)],
    [
      "where SQLite has its log",
      "belongs to the database itself",
      () => (file = `${storeFolder.path}-wal`),
    ],
    [
      "where SQLite would have its log, by another way",
      "belongs to the database itself",
      () => {
        symlinkSync(".", join(storeFolder.folder, "here"));
        file = join(storeFolder.folder, "here", "tollgate.db-journal");
      },
    ],
    [
      "of records that do not agree",
      "the records of the database do not agree (problems: 3, the first: key key_alice: ",
      () => {
        const sqlite = new Database(storeFolder.path);
        sqlite.run("UPDATE keys SET spent = spent + 5");
        sqlite.close();
      },
    ],
    [
      "of a store without its triggers",
      "trigger ledger_moves_balance is missing",
      () => {
        const sqlite = new Database(storeFolder.path);
        sqlite.run("DROP TRIGGER ledger_moves_balance");
        sqlite.close();
      },
    ],
    [
      "of a store with a foreign trigger",
      "trigger mine is not the program's own: drop it",
      () => {
        const sqlite = new Database(storeFolder.path);
        sqlite.run("CREATE TRIGGER mine AFTER INSERT ON ledger BEGIN SELECT 1; END");
        sqlite.close();
      },
    ],
    [
      "of a store with a foreign index that can refuse a booking",
      "index mine is not the program's own: drop it",
      () => {
        const sqlite = new Database(storeFolder.path);
        sqlite.run("CREATE INDEX mine ON LEDGER (abs(-9223372036854775807 - 1)) WHERE seq > 1000");
        sqlite.close();
      },
    ],
  ])("%s: %s", async (_, message, prepare) => {
    prepare();
    await refuses(message);
  });

  test("of a file that is no store of this program, or of a newer one", async () => {
    const strange = join(storeFolder.folder, "strange.db");
    writeFileSync(strange, "precious text\n".repeat(1000));
    await refuses("damaged or not a database", file, strange);
    rmSync(strange);
    const sqlite = new Database(strange);
    sqlite.run("CREATE TABLE places (url TEXT)");
    await refuses("not a database of tollgate", file, strange);
    sqlite.run(`PRAGMA user_version = ${(await inspectStore(storeFolder.path))?.schema.known}`);
    await refuses("is missing or not the program's own", file, strange);
    sqlite.run("PRAGMA user_version = 999");
    sqlite.close();
    await refuses("newer version", file, strange);
  });

  test("of a store that is damaged", async () => {
    await back();
    const damaged = join(storeFolder.folder, "damaged.db");
    copyFileSync(file, damaged);
    const bytes = readFileSync(damaged);
    bytes.fill(0xff, 4096 * 8, 4096 * 9);
    writeFileSync(damaged, bytes);
    rmSync(file);
    await refuses("damaged or not a database", file, damaged);
  });

  test("when it is stopped", async () => {
    const order = { database: storeFolder.path, file, stopped: Promise.resolve() };
    expect(await backUp(order).catch(String)).toContain("stopped: nothing was changed");
    expect(others()).toEqual([]);
  });

  test("over a file that came in the meantime", async () => {
    const running = back();
    writeFileSync(file, "precious");
    expect(await running.catch(String)).toContain("exists already");
    expect(readFileSync(file, "utf8")).toBe("precious");
    expect(others()).toEqual(["copy.db"]);
  });
});

test("a backup includes foreign tables and indexes", async () => {
  const sqlite = new Database(storeFolder.path);
  sqlite.run("CREATE TABLE notes (text TEXT UNIQUE)");
  sqlite.run("CREATE INDEX notes_length ON notes (length(text))");
  sqlite.close();
  await back();
  expect(others()).toEqual(["copy.db"]);
});

test("a backup can be opened as a store as it is", async () => {
  await back();
  const store = openStore({ path: file, durability: "process", serving: true });
  expect((await store.auditHere()).problems).toEqual([]);
  expect(await store.accounts.list()).toEqual(await storeFolder.store.accounts.list());
  store.closeNow();
});
