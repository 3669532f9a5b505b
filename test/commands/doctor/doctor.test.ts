import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmod,
  chown,
  copyFile,
  exists,
  link,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join, resolve } from "node:path";
import { takeInstanceLock } from "../../../src/store/store.ts";
import { fromSource, openDesk, type Desk } from "../../support/binary/cli.ts";
import { change, checkNames, credit, examine, type Scene } from "../../support/binary/doctor.ts";
import { makeFirstVersion } from "../../support/store/firstVersion.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";

const PAGE_BYTES = 4096;
const HOUR_MS = 3_600_000;
const secret = "sk-upstream-0123456789abcdef";

const provider = startProvider();
afterAll(() => provider.stop());

const baseUrl = `http://127.0.0.1:${provider.port}/v1`;
const config = configText(oneModel(baseUrl));

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk(config);
});
afterEach(() => desk.remove());

/** Takes a desk with another config, or whose program another one starts. */
async function newDesk(text: string, launcher: readonly string[] = []): Promise<void> {
  await desk.remove();
  desk = await openDesk(text, [...launcher, ...fromSource]);
}

function certificate(name: string): string {
  return resolve(import.meta.dir, "../../support/certificates", name);
}

function databaseAt(path: string): Promise<void> {
  return newDesk(configText(oneModel(baseUrl, { database: { path } })));
}

/** Makes the database as the first version did. */
async function makeOlder(): Promise<void> {
  makeFirstVersion(desk.database, () => undefined);
  await chmod(desk.database, 0o600);
}

/** Hides rows from whoever looks them up in an index: its first page says that it has no entries. */
async function damage(): Promise<void> {
  credit(desk, Date.now());
  const sqlite = new Database(desk.database);
  const index = sqlite
    .query<{ page: number }, []>(
      "SELECT rootpage AS page FROM sqlite_schema WHERE name = 'ledger_account_seq'",
    )
    .get();
  sqlite.close();
  const bytes = await readFile(desk.database);
  bytes.writeUInt16BE(0, ((index?.page ?? 0) - 1) * PAGE_BYTES + 3);
  await writeFile(desk.database, bytes);
}

/** Writes something that stands in the write-ahead log only, as after a crash. */
async function leaveLog(): Promise<void> {
  const files = [desk.database, `${desk.database}-wal`];
  const writer = new Database(desk.database);
  writer.run("CREATE TABLE written_last (id INTEGER)");
  for (const file of files) await copyFile(file, `${file}.kept`);
  writer.close();
  for (const file of files) await rename(`${file}.kept`, file);
}

describe("doctor, where all is well", () => {
  test("ends with 0, also before the first start, and makes no database", async () => {
    const { status, messages } = await examine(desk);
    expect(status).toBe(0);
    expect(messages["database"]).toStartWith(
      `there is no database yet at ${desk.database}: \`tollgate`,
    );
    expect(messages["clock"]).toEndWith("the ledger has no entry yet to compare with");
    expect(await readdir(desk.folder)).toEqual(["config.toml"]);
  });

  test("looks at the database and changes nothing in it", async () => {
    credit(desk, Date.now());
    await leaveLog();
    const before = await readFile(desk.database);
    const { failed, messages } = await examine(desk);
    expect(failed).toEqual([]);
    expect(messages["database"]).toStartWith(`${desk.database} is in order (`);
    expect(messages["database"]).toContain("schema 4 of 4, no gateway is running on it");
    expect(messages["clock"]).toContain("not before the last ledger entry");
    expect(await readFile(desk.database)).toEqual(before);
    expect(await exists(`${desk.database}.lock`)).toBe(false);
    expect(await desk.json("audit")).toMatchObject({ ok: true });
  });

  test("asks the providers nothing", async () => {
    provider.forget();
    expect((await examine(desk)).messages["providers"]).toStartWith("1 of 1 accept connections");
    expect(provider.requests).toEqual([]);
  });

  test("says that a database of an older version will be brought up to date, and leaves it", async () => {
    await makeOlder();
    for (let run = 0; run < 2; run += 1) {
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual([]);
      expect(messages["database"]).toContain("schema 2 of 4, the next command migrates it");
    }
  });

  test("takes no argument", async () => {
    expect(await desk.run("doctor", "alice")).toMatchObject({ status: 2, stdout: "" });
  });

  test("shows people a table", async () => {
    const { status, stdout, stderr } = await desk.run("doctor");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const lines = stdout.split("\n");
    expect(lines[0]).toMatch(/^check +result +found$/);
    expect(lines.slice(1).map((line) => line.split(/ +/, 2))).toEqual(
      checkNames.map((name) => [name, "ok"]),
    );
  });
});

const scenes: readonly Scene[] = [
  {
    what: "a file that is no database",
    spoil: () => writeFile(desk.database, "a".repeat(5000), { mode: 0o600 }),
    failed: ["clock", "database"],
    message: () => `database is damaged or not a database: ${desk.database}`,
  },
  {
    what: "another program's database",
    spoil() {
      desk.makeDatabase();
      change(desk, "PRAGMA user_version = 0");
    },
    failed: ["clock", "database"],
    message: () => "database belongs to another program: name another file",
  },
  {
    what: "a database of a newer version",
    spoil() {
      desk.makeDatabase();
      change(desk, "PRAGMA user_version = 99");
    },
    failed: ["clock", "database"],
    message: () => "database was written by a newer version of tollgate: use that version",
  },
  {
    what: "a database with a page that is not what it was",
    spoil: damage,
    failed: ["database"],
    message: () => `${desk.database} is damaged: stop the gateway, copy the file`,
  },
  {
    what: "a database that lacks a trigger",
    spoil() {
      desk.makeDatabase();
      change(desk, "DROP TRIGGER ledger_keeps");
    },
    failed: ["database"],
    message: () =>
      `${desk.database} does not have tollgate's schema: stop the gateway, copy the file, and restore a backup; trigger ledger_keeps is missing`,
  },
  {
    what: "a database that says it is of an older version, and is not",
    spoil() {
      desk.makeDatabase();
      change(desk, "PRAGMA user_version = 2");
    },
    failed: ["database"],
    message: () => `${desk.database} does not have tollgate's schema: stop the gateway`,
  },
  {
    what: "a setting of an account that nobody gave it",
    spoil() {
      credit(desk, Date.now());
      change(desk, "UPDATE accounts SET disabled = 7");
    },
    failed: ["database"],
    message: () =>
      `${desk.database} has keys or accounts that are damaged: set them again, or restore a backup; account alice: is neither`,
  },
  {
    what: "a database with two names",
    async spoil() {
      desk.makeDatabase();
      await link(desk.database, `${desk.database}.daily`);
    },
    failed: ["database"],
    message: () => `${desk.database} has another name by a hard link`,
  },
  {
    what: "a database whose name is a folder's",
    spoil: () => databaseAt("."),
    failed: ["clock", "database"],
    message: () => `database is no file: ${desk.folder}; name another`,
  },
  {
    what: "a clock behind the books",
    spoil: () => credit(desk, Date.now() + HOUR_MS),
    failed: ["clock"],
    message: () => "but the last ledger entry is from 2",
  },
  {
    what: "few open files",
    spoil: () => newDesk(config, ["sh", "-c", 'ulimit -n 500; exec "$@"', "sh"]),
    failed: ["limits"],
    message: () => "500 open files allowed",
  },
  {
    what: "options slipped to the runtime",
    spoil: () => newDesk(config, ["env", "BUN_OPTIONS=--smol"]),
    failed: ["environment"],
    message: () => "BUN_OPTIONS: it can run other code inside this program; unset it",
  },
  {
    what: "certificates that nobody verifies",
    spoil: () => newDesk(config, ["env", "NODE_TLS_REJECT_UNAUTHORIZED=0"]),
    failed: ["environment"],
    message: () => "NODE_TLS_REJECT_UNAUTHORIZED: 0 accepts any certificate; unset it",
  },
  {
    what: "a folder for the database that is not there",
    spoil: () => databaseAt("none/tollgate.db"),
    failed: ["disk", "permissions", "database"],
    message: () => `there is no folder ${join(desk.folder, "none")} for the database: make it`,
  },
  {
    what: "a link to a folder that is not there",
    spoil: () => symlink("none/tollgate.db", desk.database),
    failed: ["disk", "permissions", "database"],
    message: () => `there is no folder ${join(desk.folder, "none")} for the database: make it`,
  },
  {
    what: "a config with a problem, and looks at the database even so",
    async spoil() {
      await newDesk(
        `${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "\${NO_SUCH_VARIABLE}"`,
      );
      await chmod(desk.config, 0o600);
      credit(desk, Date.now());
    },
    failed: ["config", "providers"],
    message: () => "not checked, because the config has problems: correct them first",
  },
  {
    what: "a database that others can read",
    async spoil() {
      desk.makeDatabase();
      await chmod(desk.database, 0o644);
    },
    failed: ["permissions"],
    message: () => `${desk.database} is open to other users (mode 0644): chmod 600 it`,
  },
  {
    what: "a database that others can read, behind a link",
    async spoil() {
      desk.makeDatabase();
      await rename(desk.database, join(desk.folder, "books.db"));
      await symlink("books.db", desk.database);
      await chmod(desk.database, 0o604);
    },
    failed: ["permissions"],
    message: () => `${join(desk.folder, "books.db")} is open to other users (mode 0604)`,
  },
  {
    what: "a database that its own owner may not write to",
    async spoil() {
      desk.makeDatabase();
      await chmod(desk.database, 0o400);
    },
    failed: ["permissions"],
    message: () => `${desk.database} is not accessible to its owner (mode 0400): chmod 600 it`,
  },
  {
    what: "a folder in which anybody can replace the database",
    spoil: () => chmod(desk.folder, 0o777),
    failed: ["permissions"],
    message: () => `in ${desk.folder} every user can replace the database (mode 0777): chmod o-w`,
  },
  {
    what: "a config that anybody can change",
    spoil: () => chmod(desk.config, 0o666),
    failed: ["permissions"],
    message: () => `${desk.config} is writable by every user (mode 0666): chmod o-w it`,
  },
  {
    what: "a config that others can read, with a key in it",
    spoil: () =>
      newDesk(`${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "${secret}"`),
    failed: ["permissions"],
    message: () =>
      `${desk.config} is open to other users (mode 0644), and contains providers[1].api_key`,
  },
  {
    what: "a key of the certificate that every user can read",
    async spoil() {
      const tls = { tls_cert: certificate("localhost.pem"), tls_key: "server.key" };
      await newDesk(configText(oneModel(baseUrl, { server: tls })));
      await copyFile(certificate("server.key"), join(desk.folder, "server.key"));
      await chmod(join(desk.folder, "server.key"), 0o644);
    },
    failed: ["permissions"],
    message: () => `${join(desk.folder, "server.key")}, the TLS key, is open to every user`,
  },
];

describe("doctor finds", () => {
  test.each(scenes)("$what", async ({ spoil, failed, message }) => {
    await spoil();
    const found = await examine(desk);
    expect(found.failed).toEqual(failed);
    expect(found.messages[failed.at(-1) ?? ""]).toContain(message());
    expect(found.output).not.toContain(secret);
  });

  test("nothing amiss in a folder and a config that others may read, and does not call them closed", async () => {
    desk.makeDatabase();
    await chmod(desk.folder, 0o755);
    await chmod(desk.config, 0o644);
    const { failed, messages } = await examine(desk);
    expect(failed).toEqual([]);
    expect(messages["permissions"]).toBe(
      "only the owner can read the database; other users cannot replace it or change the config",
    );
  });

  describe.skipIf(process.getuid?.() !== 0)("as root", () => {
    test("nothing amiss in a database of the gateway's own user, and whose it is", async () => {
      desk.makeDatabase();
      await chown(desk.database, 12_345, 12_345);
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual([]);
      expect(messages["permissions"]).toContain("; the database belongs to uid 12345: run the");
    });

    test("a lock beside the database that is another's", async () => {
      desk.makeDatabase();
      await Bun.write(`${desk.database}.lock`, "");
      await chmod(`${desk.database}.lock`, 0o600);
      await chown(desk.database, 12_345, 12_345);
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual(["permissions"]);
      expect(messages["permissions"]).toStartWith(
        `${desk.database}.lock belongs to uid 0, and the database to uid 12345: run tollgate as`,
      );
    });
  });

  test("no config, and looks at what needs none", async () => {
    await rm(desk.config);
    const { failed, messages } = await examine(desk);
    const needing = ["config", "clock", "disk", "permissions", "database", "providers"];
    expect(failed).toEqual(needing);
    expect(messages["config"]).toStartWith("no config: ");
    expect(messages["database"]).toStartWith("not checked, because the config cannot be read");
  });

  test("a database of an older version with a gateway of that version at work", async () => {
    await makeOlder();
    const lock = takeInstanceLock(desk.database);
    try {
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual(["database"]);
      expect(messages["database"]).toEndWith(
        "unless it has just started, it has another version: restart it",
      );
    } finally {
      lock?.release();
    }
  });

  test("a disk that has no room", async () => {
    await databaseAt("/proc/tollgate.db");
    const { failed, messages } = await examine(desk);
    expect(failed).toContain("disk");
    expect(messages["disk"]).toMatch(/^0 bytes free in \/proc .* at least 250.0 MB are needed/);
  });

  test("a clock in order again, with the next entry after it was ahead", async () => {
    credit(desk, Date.now() + HOUR_MS);
    expect((await examine(desk)).failed).toEqual(["clock"]);
    credit(desk, Date.now());
    expect((await examine(desk)).failed).toEqual([]);
  });

  test("the faults of a file, for people a line each", async () => {
    await damage();
    const { stdout } = await desk.run("doctor");
    expect(stdout).toMatch(/^database +failed .*\n(?: {14,}.*\n)* {14,}\S.*ledger_account_seq/m);
  });
});
