import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { hashKey, isWellFormedKey } from "../../src/auth/apiKey.ts";
import { openDesk, type Desk } from "../support/binary/cli.ts";

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk();
});
afterEach(() => desk.remove());

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
  models: null,
  budget_rub: null,
  spent_rub: "0",
  limits: { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
};

describe("keys create", () => {
  test("makes the account if it is new, and says so", async () => {
    const first = await desk.json("keys", "create", "--account", "alice");
    const second = await desk.json("keys", "create", "--account", "alice");
    const key = expect.stringMatching(/^sk-tg-[0-9A-Za-z]{49}$/);
    expect(first).toEqual({ ...plain, key, created_account: true });
    expect(second).toEqual({ ...plain, key, created_account: false });
    expect(await desk.json("accounts", "list")).toHaveLength(1);
  }, 20_000);

  test("keeps every setting", async () => {
    const before = Date.now();
    const settings = [
      ["--label", "laptop"],
      ["--expires", "30d"],
      ["--rpm", "60"],
      ["--tpm", "0"],
      ["--concurrent", "2"],
      ["--models", "small,gi*"],
      ["--budget", "12.5"],
    ].flat();
    await desk.json("keys", "create", "--account", "alice", ...settings);
    const [key] = (await desk.json("keys", "list")) as [Record<string, unknown>];
    expect(key).toEqual({
      ...plain,
      label: "laptop",
      expires_at: time,
      models: ["small", "gi*"],
      budget_rub: "12.5",
      limits: { requests_per_minute: 60, tokens_per_minute: 0, concurrent_requests: 2 },
    });
    const lifeMs = Date.parse(String(key["expires_at"])) - before;
    expect(lifeMs).toBeGreaterThanOrEqual(30 * 86_400_000);
    expect(lifeMs).toBeLessThan(30 * 86_400_000 + 60_000);
  }, 20_000);

  test("shows people the key alone on its line, once", async () => {
    const { stdout } = await desk.run("keys", "create", "--account", "alice");
    expect(stdout).toContain("created account alice");
    expect(stdout).toContain("shown this once");
    const key = stdout.split("\n").find(isWellFormedKey) ?? "";
    expect(key).toStartWith("sk-tg-");
    const list = await desk.run("keys", "list");
    expect(list.stdout).toContain(key.slice(0, 12));
    expect(list.stdout).not.toContain(key);
  }, 20_000);

  test("leaves of a key only its SHA-256 in the files", async () => {
    const { id, key } = (await desk.json("keys", "create", "--account", "alice")) as CreatedKey;
    for (const name of readdirSync(desk.folder)) {
      expect(readFileSync(join(desk.folder, name)).includes(key.slice(12))).toBe(false);
    }
    const sqlite = new Database(desk.database, { readonly: true });
    const row = sqlite.query("SELECT public_id, hash FROM keys").get();
    sqlite.close();
    expect(row).toEqual({ public_id: id, hash: Uint8Array.from(hashKey(key)) });
  }, 20_000);

  test("refuses a model that the config does not have, names those it has, and makes no database", async () => {
    const args = ["--account", "alice", "--models", "small,larg"];
    const { status, stdout, stderr } = await desk.run("keys", "create", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toBe('error: the config has no model "larg"; its models are: small, gift');
    expect(existsSync(desk.database)).toBe(false);
  }, 20_000);

  test("says when the account is disabled", async () => {
    await desk.run("accounts", "create", "alice");
    await desk.run("accounts", "disable", "alice");
    const { stdout } = await desk.run("keys", "create", "--account", "alice");
    expect(stdout).toContain("tollgate accounts enable alice");
  }, 20_000);
});

describe("keys list and revoke", () => {
  test("tell what became of each key", async () => {
    desk.makeDatabase();
    const empty = await desk.run("keys", "list");
    expect(empty.stdout).toBe("no keys yet: tollgate keys create --account NAME");
    const { id } = (await desk.json("keys", "create", "--account", "alice")) as CreatedKey;
    await desk.json("keys", "create", "--account", "bob", "--expires", "1ms", "--label", "short");
    const revoked = { ...plain, id, revoked_at: time };
    expect(await desk.json("keys", "revoke", id)).toEqual({ ...revoked, applied: true });
    expect(await desk.json("keys", "revoke", id)).toEqual({ ...revoked, applied: false });
    expect(await desk.json("keys", "list", "--account", "alice")).toEqual([revoked]);
    const { stdout } = await desk.run("keys", "list");
    expect(stdout).toMatch(/alice +- +sk-tg-\S{6} +revoked +never/);
    expect(stdout).toMatch(/bob +short +sk-tg-\S{6} +expired +\d{4}-/);
  }, 20_000);

  test("name the one that is damaged, beside all the others", async () => {
    const { id } = (await desk.json("keys", "create", "--account", "alice")) as CreatedKey;
    await desk.json("keys", "create", "--account", "bob");
    const sqlite = new Database(desk.database);
    const spoil =
      "UPDATE keys SET models = '[bm', last_used_at = 9223372036854775807 WHERE public_id = ?";
    sqlite.run(spoil, [id]);
    sqlite.close();
    const { stdout } = await desk.run("keys", "list");
    expect(stdout).toMatch(/alice .* damaged .*\n.*bob .* active/);
    const { stdout: shown } = await desk.run("keys", "show", id);
    expect(shown).toMatch(/models +none, for the list is damaged: set it anew/);
  }, 20_000);

  test.each([
    [["revoke", "key_x"], 'there is no key "key_x": tollgate keys list shows them'],
    [["list", "--account", "nobody"], 'there is no account "nobody"'],
  ])("fail on what is not there: %j", async (args, message) => {
    desk.makeDatabase();
    const { status, stdout, stderr } = await desk.run("keys", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toStartWith(`error: ${message}`);
  });
});
