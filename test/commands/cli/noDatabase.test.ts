import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
});
afterAll(() => cli.remove());

describe("without a database", () => {
  test.each<readonly string[]>([
    ["audit"],
    ["backup", "night.db"],
    ["usage"],
    ["usage", "--csv"],
    ["requests"],
    ["requests", "show", "req_1"],
    ["balance", "show", "alice"],
    ["balance", "history", "alice"],
    ["accounts", "list"],
    ["accounts", "show", "alice"],
    ["keys", "list"],
    ["keys", "show", "key_1"],
    ["accounts", "set", "alice", "--overdraft", "1"],
    ["accounts", "disable", "alice"],
    ["accounts", "enable", "alice"],
    ["balance", "credit", "alice", "5"],
    ["balance", "debit", "alice", "5"],
    ["balance", "refund", "req_1"],
    ["keys", "set", "key_1", "--rpm", "1"],
    ["keys", "rotate", "key_1"],
    ["keys", "revoke", "key_1"],
    ["vouchers", "create", "--amount", "5"],
    ["vouchers", "list"],
    ["vouchers", "revoke", "vch_1"],
  ])(
    "a command that creates no account fails and creates no database: %s %s %s",
    async (...args) => {
      const { status, stdout, stderr } = await cli.run(...args);
      expect({ status, stdout, stderr }).toEqual({
        status: 1,
        stdout: "",
        stderr: `error: there is no database at ${cli.database}: \`tollgate serve\` or \`tollgate accounts create\` creates it`,
      });
      expect(await readdir(cli.folder)).toEqual(["config.toml"]);
    },
  );

  test("and without its folder, a command names the missing folder", async () => {
    const other = await openCliFolder('[database]\npath = "data/tollgate.db"\n');
    try {
      const { status, stderr } = await other.run("accounts", "list");
      expect({ status, stderr }).toEqual({
        status: 1,
        stderr: `error: there is no folder ${join(other.folder, "data")} for the database: make it, or name another file as the path of [database]`,
      });
    } finally {
      await other.remove();
    }
  });

  test.each<readonly string[]>([
    ["accounts", "create", "alice"],
    ["keys", "create", "--account", "alice"],
  ])(
    "a command that creates an account creates the database: %s %s %s",
    async (...args) => {
      const other = await openCliFolder();
      try {
        await other.run(...args);
        expect(await other.json("audit")).toMatchObject({ ok: true });
      } finally {
        await other.remove();
      }
    },
    20_000,
  );
});

describe("with an empty database file", () => {
  beforeAll(() => writeFile(cli.database, ""));
  afterAll(() => rm(cli.database));
  const empty = () =>
    `the database ${cli.database} is empty, a file of 0 bytes: put the database back, or a backup with \`tollgate restore FILE\`; \`tollgate serve\` makes a new one in it`;

  test.each<readonly string[]>([["audit"], ["backup", "night.db"], ["balance", "show", "alice"]])(
    "a command fails and does not change the file: %s %s %s",
    async (...args) => {
      const { status, stdout, stderr } = await cli.run(...args);
      expect({ status, stdout, stderr }).toEqual({
        status: 1,
        stdout: "",
        stderr: `error: ${empty()}`,
      });
      expect((await stat(cli.database)).size).toBe(0);
    },
  );

  test("doctor reports it with the advice", async () => {
    const { stdout } = await cli.run("doctor", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      checks: expect.arrayContaining([{ name: "database", ok: false, message: empty() }]),
    });
  });
});
