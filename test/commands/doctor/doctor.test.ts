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
import { takeInstanceLock } from "../../../src/store/open.ts";
import { fromSource, openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import {
  change,
  checkNames,
  credit,
  examine,
  type SpoiledCase,
} from "../../support/binary/doctor.ts";
import { describeAsRoot } from "../../support/binary/otherUser.ts";
import { makeEmptyVersion, versionsOf } from "../../support/store/earlierVersion.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";

const SCHEMA = versionsOf("sqlite").at(-1) ?? 0;

const PAGE_BYTES = 4096;
const [OF_020 = 0] = versionsOf("sqlite");
const HOUR_MS = 3_600_000;
const secret = "sk-upstream-0123456789abcdef";

const provider = startProvider();
afterAll(() => provider.stop());

const baseUrl = `http://127.0.0.1:${provider.port}/v1`;
/** Without it, the config is warned of. */
const givesSearches = { api: { allowed_tools: ["web_search"] } };
const config = configText(oneModel(baseUrl, givesSearches));

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder(config);
});
afterEach(() => cli.remove());

/** Replaces the desk by one with another config, or with a program that starts tollgate. */
async function newDesk(text: string, launcher: readonly string[] = []): Promise<void> {
  await cli.remove();
  cli = await openCliFolder(text, [...launcher, ...fromSource]);
}

function certificate(name: string): string {
  return resolve(import.meta.dir, "../../support/certificates", name);
}

function databaseAt(path: string): Promise<void> {
  return newDesk(configText(oneModel(baseUrl, { database: { path } })));
}

/** Creates the database as 0.2.0 did. */
async function makeOlder(): Promise<void> {
  makeEmptyVersion(cli.database, OF_020);
  await chmod(cli.database, 0o600);
}

/** Empties the first page of an index, so that lookups miss rows. */
async function damage(): Promise<void> {
  await credit(cli, Date.now());
  const sqlite = new Database(cli.database);
  const index = sqlite
    .query<{ page: number }, []>(
      "SELECT rootpage AS page FROM sqlite_schema WHERE name = 'ledger_account_seq'",
    )
    .get();
  sqlite.close();
  const bytes = await readFile(cli.database);
  bytes.writeUInt16BE(0, ((index?.page ?? 0) - 1) * PAGE_BYTES + 3);
  await writeFile(cli.database, bytes);
}

/** Leaves a change that is only in the write-ahead log, as after a crash. */
async function leaveWriteAheadLog(): Promise<void> {
  const files = [cli.database, `${cli.database}-wal`];
  const writer = new Database(cli.database);
  writer.run("CREATE TABLE written_last (id INTEGER)");
  for (const file of files) await copyFile(file, `${file}.kept`);
  writer.close();
  for (const file of files) await rename(`${file}.kept`, file);
}

describe("doctor without problems", () => {
  test("exits with 0, also before the first start, and creates no database", async () => {
    const { status, messages } = await examine(cli);
    expect(status).toBe(0);
    expect(messages["database"]).toStartWith(
      `there is no database yet at ${cli.database}: \`tollgate`,
    );
    expect(messages["clock"]).toEndWith("the database has no entry yet to compare with");
    expect(await readdir(cli.folder)).toEqual(["config.toml"]);
  });

  test("reads the database and changes nothing in it", async () => {
    await credit(cli, Date.now());
    await leaveWriteAheadLog();
    const before = await readFile(cli.database);
    const { failed, messages } = await examine(cli);
    expect(failed).toEqual([]);
    expect(messages["database"]).toStartWith(`${cli.database} is in order (`);
    expect(messages["database"]).toContain(
      `schema ${SCHEMA} of ${SCHEMA}, no gateway is running on it`,
    );
    expect(messages["clock"]).toContain("not before the last entry of the database");
    expect(await readFile(cli.database)).toEqual(before);
    expect(await exists(`${cli.database}.lock`)).toBe(false);
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });

  test("sends the providers nothing", async () => {
    provider.forget();
    expect((await examine(cli)).messages["providers"]).toStartWith("1 of 1 accept connections");
    expect(provider.requests).toEqual([]);
  });

  test("says that an older database is upgraded, and whether there is room, and does not change it", async () => {
    await makeOlder();
    for (let run = 0; run < 2; run += 1) {
      const { failed, messages } = await examine(cli);
      expect(failed).toEqual([]);
      expect(messages["database"]).toContain(`schema 8 of ${SCHEMA}, the next start`);
      expect(messages["database"]).toMatch(
        /, the next start or command upgrades it, .*; the upgrade makes a verified backup beside the database first: it needs up to 33\.\d MB on its disk, and \S+ \SB are free$/,
      );
    }
  });

  test("takes no argument", async () => {
    expect(await cli.run("doctor", "alice")).toMatchObject({ status: 2, stdout: "" });
  });

  test("prints a table", async () => {
    const { status, stdout, stderr } = await cli.run("doctor");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const lines = stdout.split("\n");
    expect(lines[0]).toMatch(/^check +result +found$/);
    expect(lines.slice(1).map((line) => line.split(/ +/, 2))).toEqual(
      checkNames.map((name) => [name, "ok"]),
    );
  });
});

const spoiledCases: readonly SpoiledCase[] = [
  {
    what: "a file that is not a database",
    spoil: () => writeFile(cli.database, "a".repeat(5000), { mode: 0o600 }),
    failed: ["clock", "database"],
    message: () => `database is damaged or not a database: ${cli.database}`,
  },
  {
    what: "another program's database",
    spoil() {
      cli.makeDatabase();
      change(cli, "PRAGMA user_version = 0");
    },
    failed: ["clock", "database"],
    message: () => "database belongs to another program: name another file",
  },
  {
    what: "a database of a newer version",
    spoil() {
      cli.makeDatabase();
      change(cli, "PRAGMA user_version = 99");
    },
    failed: ["clock", "database"],
    message: () => "database was written by a newer version of tollgate: use that version",
  },
  {
    what: "a database with a damaged page",
    spoil: damage,
    failed: ["database"],
    message: () => `${cli.database} is damaged: stop the gateway, copy the file`,
  },
  {
    what: "a database that lacks a trigger",
    spoil() {
      cli.makeDatabase();
      change(cli, "DROP TRIGGER ledger_keeps");
    },
    failed: ["database"],
    message: () =>
      `${cli.database} does not have tollgate's schema: stop the gateway, copy the file, and restore a backup; trigger ledger_keeps is missing`,
  },
  {
    what: "a database with the wrong version number",
    spoil() {
      cli.makeDatabase();
      change(cli, "PRAGMA user_version = 8");
    },
    failed: ["database"],
    message: () => `${cli.database} does not have tollgate's schema: stop the gateway`,
  },
  {
    what: "an invalid setting of an account",
    async spoil() {
      await credit(cli, Date.now());
      change(cli, "UPDATE accounts SET disabled = 7");
    },
    failed: ["database"],
    message: () =>
      `${cli.database} has keys or accounts that are damaged: set them again, or restore a backup; account alice: is neither`,
  },
  {
    what: "a database with a hard link",
    async spoil() {
      cli.makeDatabase();
      await link(cli.database, `${cli.database}.daily`);
    },
    failed: ["database"],
    message: () => `${cli.database} has another name by a hard link`,
  },
  {
    what: "a database path that is a folder",
    spoil: () => databaseAt("."),
    failed: ["clock", "database"],
    message: () => `database is no file: ${cli.folder}; name another`,
  },
  {
    what: "a clock before the last entry",
    spoil: () => credit(cli, Date.now() + HOUR_MS),
    failed: ["clock"],
    message: () => "but the last entry of the database is from 2",
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
    message: () => `there is no folder ${join(cli.folder, "none")} for the database: make it`,
  },
  {
    what: "a config with a problem, and still checks the database",
    async spoil() {
      await newDesk(
        `${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "\${NO_SUCH_VARIABLE}"`,
      );
      await chmod(cli.config, 0o600);
      await credit(cli, Date.now());
    },
    failed: ["config", "providers"],
    message: () => "not checked, because the config has problems: correct them first",
  },
  {
    what: "a database that others can read",
    async spoil() {
      cli.makeDatabase();
      await chmod(cli.database, 0o644);
    },
    failed: ["permissions"],
    message: () => `${cli.database} is open to other users (mode 0644): chmod 600 it`,
  },
  {
    what: "a linked database that others can read",
    async spoil() {
      cli.makeDatabase();
      await rename(cli.database, join(cli.folder, "target.db"));
      await symlink("target.db", cli.database);
      await chmod(cli.database, 0o604);
    },
    failed: ["permissions"],
    message: () => `${join(cli.folder, "target.db")} is open to other users (mode 0604)`,
  },
  {
    what: "a database that its owner cannot write to",
    async spoil() {
      cli.makeDatabase();
      await chmod(cli.database, 0o400);
    },
    failed: ["permissions"],
    message: () => `${cli.database} is not accessible to its owner (mode 0400): chmod 600 it`,
  },
  {
    what: "a folder in which every user can replace the database",
    spoil: () => chmod(cli.folder, 0o777),
    failed: ["permissions"],
    message: () => `in ${cli.folder} every user can replace the database (mode 0777): chmod o-w`,
  },
  {
    what: "a config that every user can change",
    spoil: () => chmod(cli.config, 0o666),
    failed: ["permissions"],
    message: () => `${cli.config} is writable by every user (mode 0666): chmod o-w it`,
  },
  {
    what: "a config with a secret that others can read",
    spoil: () =>
      newDesk(`${config}\n[[providers]]\nid = "b"\nbase_url = "${baseUrl}"\napi_key = "${secret}"`),
    failed: ["permissions"],
    message: () =>
      `${cli.config} is open to other users (mode 0644), and contains providers[1].api_key`,
  },
  {
    what: "a TLS key that every user can read",
    async spoil() {
      const tls = { tls_cert: certificate("localhost.pem"), tls_key: "server.key" };
      await newDesk(configText(oneModel(baseUrl, { server: tls })));
      await copyFile(certificate("server.key"), join(cli.folder, "server.key"));
      await chmod(join(cli.folder, "server.key"), 0o644);
    },
    failed: ["permissions"],
    message: () => `${join(cli.folder, "server.key")}, the TLS key, is open to every user`,
  },
];

describe("doctor finds", () => {
  test.each(spoiledCases)("$what", async ({ spoil, failed, message }) => {
    await spoil();
    const found = await examine(cli);
    expect(found.failed).toEqual(failed);
    expect(found.messages[failed.at(-1) ?? ""]).toContain(message());
    expect(found.output).not.toContain(secret);
  });

  test("no problem in a folder and a config without secrets that others can read", async () => {
    cli.makeDatabase();
    await chmod(cli.folder, 0o755);
    await chmod(cli.config, 0o644);
    const { failed, messages } = await examine(cli);
    expect(failed).toEqual([]);
    expect(messages["permissions"]).toBe(
      "only the owner can read the database; other users cannot replace it or change the config",
    );
  });

  describeAsRoot("as root", () => {
    test("no problem in a database of another user, and names that user", async () => {
      cli.makeDatabase();
      await chown(cli.database, 12_345, 12_345);
      const { failed, messages } = await examine(cli);
      expect(failed).toEqual([]);
      expect(messages["permissions"]).toContain("; the database belongs to uid 12345: run the");
    });

    test("a lock file that belongs to another user than the database", async () => {
      cli.makeDatabase();
      await Bun.write(`${cli.database}.lock`, "");
      await chmod(`${cli.database}.lock`, 0o600);
      await chown(cli.database, 12_345, 12_345);
      const { failed, messages } = await examine(cli);
      expect(failed).toEqual(["permissions"]);
      expect(messages["permissions"]).toStartWith(
        `${cli.database}.lock belongs to uid 0, and the database to uid 12345: run tollgate as`,
      );
    });
  });

  test("a missing config, and checks what does not need it", async () => {
    await rm(cli.config);
    const { failed, messages } = await examine(cli);
    const needing = ["config", "clock", "disk", "permissions", "database", "providers"];
    expect(failed).toEqual(needing);
    expect(messages["config"]).toStartWith("no config: ");
    expect(messages["database"]).toStartWith("not checked, because the config cannot be read");
  });

  test("an older database with a running gateway of that version", async () => {
    await makeOlder();
    const lock = takeInstanceLock(cli.database);
    try {
      const { failed, messages } = await examine(cli);
      expect(failed).toEqual(["database"]);
      expect(messages["database"]).toContain(
        "unless it has just started, it has another version: restart it; the upgrade makes a verified backup",
      );
    } finally {
      lock?.release();
    }
  });

  test("a full disk", async () => {
    await databaseAt("/proc/tollgate.db");
    const { failed, messages } = await examine(cli);
    expect(failed).toContain("disk");
    expect(messages["disk"]).toMatch(/^0 bytes free in \/proc .* at least 250.0 MB are needed/);
  });

  test("no problem with the clock after an entry at the correct time follows one from the future", async () => {
    await credit(cli, Date.now() + HOUR_MS);
    expect((await examine(cli)).failed).toEqual(["clock"]);
    await credit(cli, Date.now());
    expect((await examine(cli)).failed).toEqual([]);
  });

  test("the problems of a file, and prints one line for each", async () => {
    await damage();
    const { stdout } = await cli.run("doctor");
    expect(stdout).toMatch(/^database +failed .*\n(?: {14,}.*\n)* {14,}\S.*ledger_account_seq/m);
  });
});
