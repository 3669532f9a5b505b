import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { asUser, testAsRoot } from "../support/binary/otherUser.ts";

const desks: CliFolder[] = [];
afterEach(async () => {
  for (const cli of desks.splice(0)) await cli.remove();
});
async function newDesk(config?: string | null): Promise<CliFolder> {
  const cli = await openCliFolder(config);
  desks.push(cli);
  return cli;
}

describe("init", () => {
  test("writes a config that only its owner can read, and never overwrites", async () => {
    const cli = await newDesk(null);
    const { status, stdout } = await cli.run("init");
    expect(status).toBe(0);
    expect(stdout).toContain("wrote ");
    expect(stdout).toContain("      tollgate check\n");
    expect(statSync(cli.config).mode & 0o777).toBe(0o600);
    expect(readFileSync(cli.config, "utf8")).toStartWith("# Tollgate's config.");

    writeFileSync(cli.config, "mine");
    const again = await cli.run("init");
    expect(again).toMatchObject({ status: 1, stdout: "" });
    expect(again.stderr).toContain("exists already and was not changed");
    expect(readFileSync(cli.config, "utf8")).toBe("mine");
  });

  test("writes to its argument, else to the file of --config", async () => {
    const cli = await newDesk(null);
    const folder = realpathSync(cli.folder);
    expect(await cli.json("init", "a.toml", "--config", "b.toml")).toEqual({
      file: join(folder, "a.toml"),
    });
    expect(await cli.json("init", "--config", "b.toml")).toEqual({ file: join(folder, "b.toml") });
    const { status, stderr } = await cli.run("init", "missing/c.toml");
    expect(status).toBe(1);
    expect(stderr).toContain("its folder does not exist: create it first");
  });
});

describe("check", () => {
  test("accepts a valid config", async () => {
    const cli = await newDesk();
    const { status, stdout, stderr } = await cli.run("check");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toEndWith("config.toml is valid (providers: 1, models: 2)");
    expect(await cli.json("check")).toMatchObject({ ok: true, problems: [], warnings: [] });
  });

  test("prints each problem on one line, and in the JSON document", async () => {
    const cli = await newDesk('[server]\nlisten = 5\nlistne = ""\n');
    const { status, stdout, stderr } = await cli.run("check");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    const lines = stderr.split("\n");
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).toMatch(/^error: server\.listn?e?n?e?: /);
    const document = await cli.run("check", "--json");
    expect(document.status).toBe(1);
    expect(JSON.parse(document.stdout)).toEqual({
      ok: false,
      problems: lines.map((line) => line.slice("error: ".length)),
      warnings: [],
    });
  });

  test("prints warnings and exits with 0", async () => {
    const cli = await newDesk('[server]\nlisten = "0.0.0.0:8080"\n');
    const { status, stderr } = await cli.run("check");
    expect(status).toBe(0);
    expect(stderr).toMatch(/^warning: server\.listen: .*TLS/);
    const { ok, warnings } = (await cli.json("check")) as { ok: boolean; warnings: string[] };
    expect(ok).toBe(true);
    expect(warnings[0]).toStartWith("server.listen: ");
  });
});

describe("models", () => {
  test("are listed with prices and with routes in order of priority", async () => {
    const cli = await newDesk();
    expect(await cli.json("models")).toMatchObject([
      {
        id: "small",
        rub_input_per_1m: 25_000,
        rub_output_per_1m: 200_000,
        rub_cached_input_per_1m: 2500,
        rub_cache_write_per_1m: 25_000,
        routes: [
          {
            provider: "local",
            model: "small-2",
            api: "chat",
            responses: true,
            priority: 1,
            weight: 1,
          },
        ],
      },
      {
        id: "gift",
        rub_input_per_1m: 0,
        rub_output_per_1m: 0,
        routes: [
          { provider: "local", model: "gift-first", api: "chat", priority: 1, weight: 3 },
          { provider: "local", model: "gift", api: "chat", priority: 2, weight: 1 },
        ],
      },
    ]);
    const { stdout } = await cli.run("models");
    const lines = stdout.split("\n").map((line) => line.trim().replace(/ +/g, " "));
    expect(lines).toEqual([
      "prices in roubles per 1M tokens",
      "",
      "model input cached cache write output priority weight provider provider's name interfaces lowest margin",
      "small 25 2.5 25 200 1 1 local small-2 chat + /v1/responses -",
      "gift 0 0 0 0 1 3 local gift-first chat -",
      "2 1 local gift chat -",
    ]);
  });

  test("are listed without reading the secrets of providers", async () => {
    const provider = '[[providers]]\nid = "far"\nbase_url = "https://api.example.com/v1"\n';
    const cli = await newDesk(`${provider}api_key = "\${FAR_KEY}"\nca_file = "/nowhere.pem"\n`);
    expect(await cli.json("models")).toEqual([]);
  });

  test("are reported with one line if there are none", async () => {
    const cli = await newDesk("");
    const { stdout } = await cli.run("models");
    expect(stdout).toContain("no models yet: add [[models]] to ");
  });
});

describe("a command that cannot open what it needs", () => {
  test("fails with one line for a missing config", async () => {
    const cli = await newDesk();
    const { status, stdout, stderr } = await cli.run("audit", "--config", "other.toml");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(
      /^error: \S+other\.toml: cannot be read: no such file; `tollgate init \S+` creates it$/,
    );
  });

  test("fails with one line for a damaged database, and does not change it", async () => {
    const cli = await newDesk();
    writeFileSync(cli.database, "precious text\n".repeat(500));
    for (const args of [["audit"], ["balance", "credit", "alice", "5"], ["accounts", "list"]]) {
      const { status, stderr } = await cli.run(...args);
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /^error: database is damaged or not a database: \S+; it was not changed, `tollgate restore FILE` puts a backup in its place$/,
      );
    }
    expect(readFileSync(cli.database, "utf8")).toBe("precious text\n".repeat(500));
  });

  test("waits for another writer, then fails with one line", async () => {
    const cli = await newDesk();
    await cli.json("accounts", "create", "alice");
    const sqlite = new Database(cli.database);
    sqlite.run("BEGIN IMMEDIATE");
    const waiting = cli.run("balance", "credit", "alice", "5");
    const { status, stderr } = await waiting;
    expect(status).toBe(1);
    expect(stderr).toMatch(/^error: database is locked by another process: \S+; try again$/);
    sqlite.run("ROLLBACK");
    sqlite.close();
    expect(await cli.json("balance", "credit", "alice", "5")).toMatchObject({ balance_rub: "5" });
  }, 60_000);
});

describe("the admin log names the person who ran the command", () => {
  /** The actor in the log after this command, which runs the executable. */
  async function actorOf({ folder, database }: CliFolder, command: readonly string[]) {
    const environment = { PATH: process.env["PATH"], USER: "mallory", LOGNAME: "mallory" };
    const all = [...command, "accounts", "create", "alice"];
    const { success, stderr } = Bun.spawnSync(all, { cwd: folder, env: environment });
    expect([success, stderr.toString()]).toEqual([true, ""]);
    const sqlite = new Database(database, { readonly: true });
    const row = sqlite.query("SELECT actor, command, subject FROM admin_log").get();
    sqlite.close();
    expect(row).toMatchObject({ command: "accounts create", subject: "alice" });
    return (row as { actor: string }).actor;
  }

  test("by uid and by name in /etc/passwd, whatever the environment contains", async () => {
    const name = Bun.spawnSync(["id", "-un"]).stdout.toString().trim();
    const who = `${name} (uid ${process.getuid?.()})`;
    expect(await actorOf(await newDesk(), [await binaryPath()])).toBe(who);
  });

  testAsRoot("by uid only if the user has no name", async () => {
    const cli = await newDesk();
    expect(await actorOf(cli, await asUser(54_321, cli))).toBe("uid 54321");
  });
});
