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

/** Replaces the desk by one with another config, or with a program that starts tollgate. */
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

/** Creates the database as the first version did. */
async function makeOlder(): Promise<void> {
  makeFirstVersion(desk.database, () => undefined);
  await chmod(desk.database, 0o600);
}

/** Empties the first page of an index, so that lookups miss rows. */
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

/** Leaves a change that is only in the write-ahead log, as after a crash. */
async function leaveWriteAheadLog(): Promise<void> {
  const files = [desk.database, `${desk.database}-wal`];
  const writer = new Database(desk.database);
  writer.run("CREATE TABLE written_last (id INTEGER)");
  for (const file of files) await copyFile(file, `${file}.kept`);
  writer.close();
  for (const file of files) await rename(`${file}.kept`, file);
}

describe("doctor without problems", () => {
  test("exits with 0, also before the first start, and creates no database", async () => {
    const { status, messages } = await examine(desk);
    expect(status).toBe(0);
    expect(messages["database"]).toStartWith(
      `there is no database yet at ${desk.database}: \`tollgate`,
    );
    expect(messages["clock"]).toEndWith("the ledger has no entry yet to compare with");
    expect(await readdir(desk.folder)).toEqual(["config.toml"]);
  });

  test("reads the database and changes nothing in it", async () => {
    credit(desk, Date.now());
    await leaveWriteAheadLog();
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

  test("sends the providers nothing", async () => {
    provider.forget();
    expect((await examine(desk)).messages["providers"]).toStartWith("1 of 1 accept connections");
    expect(provider.requests).toEqual([]);
  });

  test("says that the next command migrates an older database, and does not change it", async () => {
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

  test("prints a table", async () => {
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
    what: "a file that is not a database",
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
    what: "a database with a damaged page",
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
    what: "a database with the wrong version number",
    spoil() {
      desk.makeDatabase();
      change(desk, "PRAGMA user_version = 2");
    },
    failed: ["database"],
    message: () => `${desk.database} does not have tollgate's schema: stop the gateway`,
  },
  {
    what: "an invalid setting of an account",
    spoil() {
      credit(desk, Date.now());
      change(desk, "UPDATE accounts SET disabled = 7");
    },
    failed: ["database"],
    message: () =>
      `${desk.database} has keys or accounts that are damaged: set them again, or restore a backup; account alice: is neither`,
  },
  {
    what: "a database with a hard link",
    async spoil() {
      desk.makeDatabase();
      await link(desk.database, `${desk.database}.daily`);
    },
    failed: ["database"],
    message: () => `${desk.database} has another name by a hard link`,
  },
  {
    what: "a database path that is a folder",
    spoil: () => databaseAt("."),
    failed: ["clock", "database"],
    message: () => `database is no file: ${desk.folder}; name another`,
  },
  {
    what: "a clock before the last ledger entry",
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
    what: "options for the runtime in the environment",
    spoil: () => newDesk(config, ["env", "BUN_OPTIONS=--smol"]),
    failed: ["environment"],
    message: () => "BUN_OPTIONS: it can run other code inside this program; unset it",
  },
  {
    what: "disabled verification of certificates",
    spoil: () => newDesk(config, ["env", "NODE_TLS_REJECT_UNAUTHORIZED=0"]),
    failed: ["environment"],
    message: () => "NODE_TLS_REJECT_UNAUTHORIZED: 0 accepts any certificate; unset it",
  },
  {
    what: "a missing folder for the database",
    spoil: () => databaseAt("none/tollgate.db"),
    failed: ["disk", "permissions", "database"],
    message: () => `there is no folder ${join(desk.folder, "none")} for the database: make it`,
  },
  {
    what: "a config with a problem, and still checks the database",
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
    what: "a linked database that others can read",
    async spoil() {
      desk.makeDatabase();
      await rename(desk.database, join(desk.folder, "target.db"));
      await symlink("target.db", desk.database);
      await chmod(desk.database, 0o604);
    },
    failed: ["permissions"],
    message: () => `${join(desk.folder, "target.db")} is open to other users (mode 0604)`,
  },
  {
    what: "a database that its owner cannot write to",
    async spoil() {
      desk.makeDatabase();
      await chmod(desk.database, 0o400);
    },
    failed: ["permissions"],
    message: () => `${desk.database} is not accessible to its owner (mode 0400): chmod 600 it`,
  },
  {
    what: "a folder in which every user can replace the database",
    spoil: () => chmod(desk.folder, 0o777),
    failed: ["permissions"],
    message: () => `in ${desk.folder} every user can replace the database (mode 0777): chmod o-w`,
  },
  {
    what: "a config that every user can change",
    spoil: () => chmod(desk.config, 0o666),
    failed: ["permissions"],
    message: () => `${desk.config} is writable by every user (mode 0666): chmod o-w it`,
  },
  {
    what: "a config with a secret that others can read",
    spoil: () =>
      newDesk(`${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "${secret}"`),
    failed: ["permissions"],
    message: () =>
      `${desk.config} is open to other users (mode 0644), and contains providers[1].api_key`,
  },
  {
    what: "a TLS key that every user can read",
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

  test("no problem in a folder and a config without secrets that others can read", async () => {
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
    test("no problem in a database of another user, and names that user", async () => {
      desk.makeDatabase();
      await chown(desk.database, 12_345, 12_345);
      const { failed, messages } = await examine(desk);
      expect(failed).toEqual([]);
      expect(messages["permissions"]).toContain("; the database belongs to uid 12345: run the");
    });

    test("a lock file that belongs to another user than the database", async () => {
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

  test("a missing config, and checks what does not need it", async () => {
    await rm(desk.config);
    const { failed, messages } = await examine(desk);
    const needing = ["config", "clock", "disk", "permissions", "database", "providers"];
    expect(failed).toEqual(needing);
    expect(messages["config"]).toStartWith("no config: ");
    expect(messages["database"]).toStartWith("not checked, because the config cannot be read");
  });

  test("an older database with a running gateway of that version", async () => {
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

  test("a full disk", async () => {
    await databaseAt("/proc/tollgate.db");
    const { failed, messages } = await examine(desk);
    expect(failed).toContain("disk");
    expect(messages["disk"]).toMatch(/^0 bytes free in \/proc .* at least 250.0 MB are needed/);
  });

  test("no problem with the clock after an entry at the correct time follows one from the future", async () => {
    credit(desk, Date.now() + HOUR_MS);
    expect((await examine(desk)).failed).toEqual(["clock"]);
    credit(desk, Date.now());
    expect((await examine(desk)).failed).toEqual([]);
  });

  test("the problems of a file, and prints one line for each", async () => {
    await damage();
    const { stdout } = await desk.run("doctor");
    expect(stdout).toMatch(/^database +failed .*\n(?: {14,}.*\n)* {14,}\S.*ledger_account_seq/m);
  });
});
