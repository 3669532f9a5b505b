import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { hashKey, isWellFormedKey } from "../../../src/auth/apiKey.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
});
afterEach(() => cli.remove());

interface CreatedKey {
  readonly id: string;
  readonly key: string;
}

const time = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
const plain = {
  id: expect.stringMatching(/^key_[0-9a-z]{20}$/),
  account: "alice",
  label: null,
  prefix: expect.stringMatching(/^sk-tg-[0-9A-Za-z]{6}$/),
  created_at: time,
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
  first_address: null,
  last_address: null,
  models: null,
  budget_rub: null,
  spent_rub: "0",
  limits: { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
};

const family = "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}";

describe("keys create", () => {
  test("creates the account if it is new, and prints that", async () => {
    const first = await cli.json("keys", "create", "--account", "alice");
    const second = await cli.json("keys", "create", "--account", "alice");
    const key = expect.stringMatching(/^sk-tg-[0-9A-Za-z]{49}$/);
    expect(first).toEqual({ ...plain, key, created_account: true });
    expect(second).toEqual({ ...plain, key, created_account: false });
    expect(await cli.json("accounts", "list")).toHaveLength(1);
  }, 60_000);

  test("saves every setting, also an emoji of several characters as label", async () => {
    const before = Date.now();
    const settings = [
      ["--label", family],
      ["--expires", "30d"],
      ["--rpm", "60"],
      ["--tpm", "0"],
      ["--concurrent", "2"],
      ["--models", "small,gi*"],
      ["--budget", "12.5"],
    ].flat();
    await cli.json("keys", "create", "--account", "alice", ...settings);
    const [key] = (await cli.json("keys", "list")) as [Record<string, unknown>];
    expect(key).toEqual({
      ...plain,
      label: family,
      expires_at: time,
      models: ["small", "gi*"],
      budget_rub: "12.5",
      limits: { requests_per_minute: 60, tokens_per_minute: 0, concurrent_requests: 2 },
    });
    const lifeMs = Date.parse(String(key["expires_at"])) - before;
    expect(lifeMs).toBeGreaterThanOrEqual(30 * 86_400_000);
    expect(lifeMs).toBeLessThan(30 * 86_400_000 + 60_000);
  }, 60_000);

  test("prints the key once, on a separate line", async () => {
    const { stdout } = await cli.run("keys", "create", "--account", "alice");
    expect(stdout).toContain("created account alice");
    expect(stdout).toContain("not shown again");
    const key = stdout.split("\n").find(isWellFormedKey) ?? "";
    expect(key).toStartWith("sk-tg-");
    const list = await cli.run("keys", "list");
    expect(list.stdout).toContain(key.slice(0, 12));
    expect(list.stdout).not.toContain(key);
  }, 60_000);

  test.each(["created", "rotated"])(
    "stores only the SHA-256 of a %s key, and shows the key once",
    async (how) => {
      const created = (await cli.json("keys", "create", "--account", "alice")) as CreatedKey;
      const { id, key } =
        how === "created"
          ? created
          : ((await cli.json("keys", "rotate", created.id)) as CreatedKey);
      for (const name of readdirSync(cli.folder)) {
        expect(readFileSync(join(cli.folder, name)).includes(key.slice(12))).toBe(false);
      }
      const sqlite = new Database(cli.database, { readonly: true });
      const row = sqlite.query("SELECT hash FROM keys WHERE public_id = ?").get(id);
      sqlite.close();
      expect(row).toEqual({ hash: Uint8Array.from(hashKey(key)) });
      for (const args of [["list"], ["show", id], ["set", id, "--rpm", "1"], ["rotate", id]]) {
        const { status, stdout } = await cli.run("keys", ...args);
        expect(status).toBe(0);
        expect(stdout).not.toContain(key);
      }
    },
    20_000,
  );
});

test.each(["create", "set"])(
  "keys %s refuses a model that the config does not have, and changes nothing",
  async (command) => {
    const { id } = (await cli.json("keys", "create", "--account", "alice")) as CreatedKey;
    const before = await cli.json("keys", "list");
    const key = command === "set" ? [id, "--rpm", "1"] : ["--account", "alice"];
    expect(await cli.run("keys", command, ...key, "--models", "small,larg")).toEqual({
      status: 1,
      stdout: "",
      stderr: 'error: the config does not have the model "larg"; its models are: small, gift',
    });
    expect(await cli.json("keys", "list")).toEqual(before);
  },
  20_000,
);

describe("keys list and revoke", () => {
  test("show the state of each key", async () => {
    cli.makeDatabase();
    const empty = await cli.run("keys", "list");
    expect(empty.stdout).toBe("no keys yet: tollgate keys create --account NAME");
    const { id } = (await cli.json("keys", "create", "--account", "alice")) as CreatedKey;
    await cli.json("keys", "create", "--account", "bob", "--expires", "1ms", "--label", "short");
    const revoked = { ...plain, id, revoked_at: time };
    expect(await cli.json("keys", "revoke", id)).toEqual({ ...revoked, applied: true });
    expect(await cli.json("keys", "revoke", id)).toEqual({ ...revoked, applied: false });
    expect(await cli.json("keys", "list", "--account", "alice")).toEqual([revoked]);
    const { stdout } = await cli.run("keys", "list");
    expect(stdout).toMatch(/alice +- +sk-tg-\S{6} +revoked +never/);
    expect(stdout).toMatch(/bob +short +sk-tg-\S{6} +expired +\d{4}-/);
  }, 60_000);

  test("show a damaged key together with the others", async () => {
    const { id } = (await cli.json("keys", "create", "--account", "alice")) as CreatedKey;
    await cli.json("keys", "create", "--account", "bob");
    const sqlite = new Database(cli.database);
    const spoil =
      "UPDATE keys SET models = '[bm', last_used_at = 9223372036854775807 WHERE public_id = ?";
    sqlite.run(spoil, [id]);
    sqlite.close();
    const { stdout } = await cli.run("keys", "list");
    expect(stdout).toMatch(/alice .* damaged .*\n.*bob .* active/);
    const { stdout: shown } = await cli.run("keys", "show", id);
    expect(shown).toMatch(/models +none, the list is damaged: set --models again/);
  }, 60_000);

  test.each([
    ...[["show"], ["set", "--rpm", "1"], ["rotate"], ["revoke"]].map(
      ([name = "", ...options]) =>
        [
          [name, "key_x", ...options],
          'there is no key "key_x": tollgate keys list shows them',
        ] as const,
    ),
    [["list", "--account", "nobody"], 'there is no account "nobody"'],
  ] as const)("keys %j fails for an unknown key or account", async (args, message) => {
    cli.makeDatabase();
    const { status, stdout, stderr } = await cli.run("keys", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toStartWith(`error: ${message}`);
  });
});
