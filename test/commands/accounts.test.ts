import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";

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
    const told = { ...bounded, low_rub: "50", notify: "mailto:bob@example.com" };
    const set = (...options: readonly string[]) => cli.json("accounts", "set", "bob", ...options);
    expect(await set("--low", "50", "--notify", "mailto:bob@example.com")).toEqual(told);
    expect(await set("--low", "none")).toEqual({ ...told, low_rub: null });
    expect(await set("--notify", "none")).toEqual(bounded);
    expect(await cli.json("accounts", "disable", "bob")).toEqual({ ...bounded, disabled: true });
    expect(await cli.json("accounts", "disable", "bob")).toEqual({ ...bounded, disabled: true });
    expect(await cli.json("accounts", "enable", "bob")).toEqual(bounded);
  }, 20_000);

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
  }, 20_000);

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
  }, 20_000);

  test("are not read from the value of another option", async () => {
    await cli.json("accounts", "create", "alice");
    await cli.json("balance", "credit", "alice", "5", "--note=--json", "--ref", "-x");
    const history = await cli.json("balance", "history", "alice");
    expect(history).toMatchObject([{ note: "--json", ref: "-x" }]);
  }, 20_000);
});
