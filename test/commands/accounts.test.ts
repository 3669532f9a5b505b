import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";

const MAIL = 'smtp = "smtp://127.0.0.1"\nfrom = "us@example.com"';
const SECRET = `secret = "whsec_${Buffer.alloc(32, 7).toString("base64")}"`;

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
});
afterEach(() => cli.remove());

const alice = {
  name: "alice",
  balance_rub: "0",
  held_rub: "0",
  available_rub: "0",
  overdraft_rub: "0",
  disabled: false,
  created_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/),
  low_rub: null,
  notify: null,
  plan: null,
};

describe("accounts", () => {
  test("are created, listed, shown and changed, always in the same form", async () => {
    cli.makeDatabase();
    expect(await cli.json("accounts", "list")).toEqual([]);
    expect(await cli.json("accounts", "create", "alice")).toEqual(alice);
    const bob = { ...alice, name: "bob", overdraft_rub: "2.5", available_rub: "2.5" };
    expect(await cli.json("accounts", "create", "bob", "--overdraft", "2.5")).toEqual(bob);
    expect(await cli.json("accounts", "list")).toEqual([alice, bob]);
    expect(await cli.json("accounts", "show", "bob")).toEqual(bob);
    const bounded = { ...bob, overdraft_rub: "0", available_rub: "0" };
    expect(await cli.json("accounts", "set", "bob", "--overdraft", "none")).toEqual(bounded);
    const set = (...options: readonly string[]) => cli.json("accounts", "set", "bob", ...options);
    expect(await set("--low", "50")).toEqual({ ...bounded, low_rub: "50" });
    expect(await set("--low", "none")).toEqual(bounded);
    expect(await cli.json("accounts", "disable", "bob")).toEqual({ ...bounded, disabled: true });
    expect(await cli.json("accounts", "disable", "bob")).toEqual({ ...bounded, disabled: true });
    expect(await cli.json("accounts", "enable", "bob")).toEqual(bounded);
  }, 60_000);

  test("have a price plan of the config", async () => {
    cli.makeDatabase();
    const config = join(cli.folder, "config.toml");
    const withoutPlan = await readFile(config, "utf8");
    const plan = '[[plans]]\nid = "wholesale"\n[[plans.rules]]\nmodels = "*"\npercent = 90\n';
    await appendFile(config, plan);
    await cli.run("accounts", "create", "alice");
    const set = (id: string) => cli.run("accounts", "set", "alice", "--plan", id, "--json");
    expect(await set("wholesaler")).toMatchObject({
      status: 1,
      stderr: 'error: the config has no plan "wholesaler"; did you mean wholesale?',
    });
    expect(JSON.parse((await set("wholesale")).stdout)).toEqual({ ...alice, plan: "wholesale" });
    expect((await cli.run("accounts", "show", "alice")).stdout).toMatch(/price plan +wholesale\n/);
    await writeFile(config, withoutPlan);
    const { stdout } = await cli.run("accounts", "show", "alice");
    expect(stdout).toMatch(/price plan +wholesale, which the config does not have: it pays/);
    expect(JSON.parse((await set("none")).stdout)).toEqual(alice);
  }, 60_000);

  test("have an address for notices, whose secret follows from that of the config", async () => {
    cli.makeDatabase();
    await appendFile(join(cli.folder, "config.toml"), `[notify]\n${SECRET}\n${MAIL}\n`);
    await cli.run("accounts", "create", "alice");
    const set = (...options: readonly string[]) => cli.json("accounts", "set", "alice", ...options);
    const own = createHmac("sha256", Buffer.alloc(32, 7)).update("account:alice").digest("base64");
    const hook = "https://example.com/hook?token=1";
    expect(await set("--notify", hook)).toEqual({
      ...alice,
      notify: hook,
      notify_secret: `whsec_${own}`,
    });
    expect((await cli.run("accounts", "show", "alice")).stdout).toContain(hook);
    const mail = "mailto:alice@example.com";
    expect(await set("--notify", mail)).toEqual({ ...alice, notify: mail });
    expect(await set("--notify", "none")).toEqual(alice);
  }, 60_000);

  test.each([
    ["https://example.com/", "", "needs a secret that signs the notices: set [notify] secret"],
    ["mailto:alice@example.com", "", "needs a mail server: set [notify] smtp and from"],
    ["mailto:a@example.com?bcc=b@example.com", MAIL, "must have one mail address after mailto:"],
    ["example.com/hook", SECRET, "must begin with https:// or mailto:"],
    ["http://example.com/hook", SECRET, "must begin with https://: over http:// others can read"],
    ["https://user:pass@example.com/", SECRET, "must not contain a user or password"],
  ])("refuse the address %s for notices", async (url, notify, problem) => {
    await appendFile(join(cli.folder, "config.toml"), `[notify]\n${notify}\n`);
    await cli.run("accounts", "create", "alice");
    const { status, stderr } = await cli.run("accounts", "set", "alice", "--notify", url);
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringContaining(`error: notify ${problem}`),
    });
    expect(await cli.json("accounts", "show", "alice")).toEqual(alice);
  });

  test("are printed as text", async () => {
    cli.makeDatabase();
    const empty = await cli.run("accounts", "list");
    expect(empty.stdout).toBe("no accounts yet: tollgate accounts create NAME");
    const created = await cli.run("accounts", "create", "alice");
    expect(created.stdout).toContain(
      "created account alice\nnext: tollgate balance credit alice 100",
    );
    await cli.run("balance", "credit", "alice", "12.5");
    const list = await cli.run("accounts", "list");
    expect(list.stdout.split("\n").map((line) => line.replace(/ \S+Z$/, ""))).toEqual([
      "account  balance, RUB  held, RUB  overdraft, RUB  available, RUB  state   created",
      "alice            12.5          0               0            12.5  active ",
    ]);
    const show = await cli.run("accounts", "show", "alice");
    expect(show.stdout).toMatch(/^account +alice\nstate +active\nbalance, RUB +12\.5\n/);
  }, 60_000);

  test.each([
    [["show", "nobody"], 'there is no account "nobody": tollgate accounts list shows them'],
    [["set", "nobody", "--overdraft", "5"], 'there is no account "nobody"'],
    [["disable", "a\nb"], 'there is no account "a\\nb"'],
    [["create", "alice"], 'account "alice" exists already: tollgate accounts show alice'],
  ])("fail with one line of advice: %j", async (args, message) => {
    await cli.run("accounts", "create", "alice");
    const { status, stdout, stderr } = await cli.run("accounts", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toStartWith(`error: ${message}`);
    expect(stderr).not.toContain("\n");
  });
});

describe("the global options", () => {
  test("work before and after the command", async () => {
    await cli.json("accounts", "create", "alice");
    const elsewhere = await openCliFolder(null);
    try {
      const lines = [
        ["--config", cli.config, "--json", "accounts", "list"],
        ["accounts", "--json", `--config=${cli.config}`, "list"],
        ["accounts", "list", "--config", cli.config, "--json"],
      ];
      const runs = await Promise.all(lines.map((args) => elsewhere.run(...args)));
      for (const { status, stdout } of runs) {
        expect(status).toBe(0);
        expect(JSON.parse(stdout)).toEqual([alice]);
      }
    } finally {
      await elsewhere.remove();
    }
  }, 60_000);

  test("are not read from the value of another option", async () => {
    await cli.json("accounts", "create", "alice");
    await cli.json("balance", "credit", "alice", "5", "--note=--json", "--ref", "-x");
    const history = await cli.json("balance", "history", "alice");
    expect(history).toMatchObject([{ note: "--json", ref: "-x" }]);
  }, 60_000);
});
