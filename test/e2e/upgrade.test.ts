import { Database } from "bun:sqlite";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { copiesRequests } from "../../src/store/sqlite/schema/migrations.ts";
import { takeInstanceLock } from "../../src/store/open.ts";
import { binaryPath, outputOf, type ChildOutput } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { ServingProcess } from "../support/binary/servingProcess.ts";
import { describeFaultyDisk } from "../support/disk/diskWorld.ts";
import { openFaultyDisk } from "../support/disk/faultyDisk.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { several } from "../support/several.ts";
import {
  addRunningRequests,
  makeEarlierVersion,
  versionsOf,
} from "../support/store/earlierVersion.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { describeSqlite } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";
import { amount } from "../support/sample.ts";

const VERSIONS = versionsOf("sqlite");
const [OF_020 = 0] = VERSIONS;
const KNOWN = VERSIONS.at(-1) ?? 0;
const isCopied = copiesRequests({ applied: OF_020, known: KNOWN });
/** Enough for a backup that takes a while. */
const MANY_REQUESTS = amount(60_000, 130_000);

const config = oneModel("http://127.0.0.1:9/v1");
const storeModule = resolve(import.meta.dir, "../../src/store/open.ts");

/** All that a database has, and the statements that made it. */
function contentOf(path: string): unknown {
  const sqlite = new Database(path, { readonly: true, safeIntegers: true });
  try {
    const schema = sqlite
      .query<{ type: string; name: string }, []>(
        "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name",
      )
      .all();
    const tables = schema.filter(({ type }) => type === "table");
    const rows = tables.map(({ name }) => sqlite.query(`SELECT * FROM "${name}"`).all());
    return { schema, rows, version: sqlite.query("PRAGMA user_version").get() };
  } finally {
    sqlite.close();
  }
}

function balancesOf(path: string): unknown[] {
  const sqlite = new Database(path, { readonly: true, safeIntegers: true });
  try {
    return sqlite.query("SELECT name, balance, ledger_seq FROM accounts ORDER BY id").all();
  } finally {
    sqlite.close();
  }
}

const backupsIn = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.includes(".before-upgrade-"))
    .map((name) => join(folder, name));

describeSqlite("the start upgrades a database of 0.2.0 and of each later schema", () => {
  beforeAll(binaryPath, startTimeoutMs);

  test.each(VERSIONS)("with schema %i, and its backup leads back", async (version) => {
    let before: unknown;
    let balances: unknown;
    const gateway = await startGatewayProcess(config, {
      async prepare({ database }) {
        makeEarlierVersion(database, version);
        [before, balances] = [contentOf(database), balancesOf(database)];
      },
    });
    try {
      const { cli, log } = gateway;
      const [backup = "", ...others] = backupsIn(cli.folder);
      expect(others).toEqual([]);
      expect(balancesOf(cli.database)).toEqual(balances as unknown[]);
      expect(await cli.json("audit")).toMatchObject({ ok: true });
      if (version === KNOWN) {
        expect(backup).toBe("");
        return;
      }
      const lines = log.filter(({ msg }) => /backup|upgraded/.test(msg));
      expect(lines).toMatchObject([
        { level: "info", backup, msg: "making a backup before the upgrade" },
        ...log.filter(({ msg }) => msg === "checking the backup"),
        { level: "info", backup, bytes: statSync(backup).size, duration_ms: expect.any(Number) },
        { level: "info", schema: KNOWN, msg: "upgraded the database" },
      ]);
      expect(backup).toEndWith(`-schema-${version}`);
      expect(statSync(backup).mode & 0o777).toBe(0o600);
      // The version before restores it as any backup of its own.
      expect(contentOf(backup)).toEqual(before);
      await gateway.stop();
      await cli.json("restore", backup);
      expect(balancesOf(cli.database)).toEqual(balances as unknown[]);
      expect(contentOf(backup)).toEqual(before);
      await gateway.start();
    } finally {
      // With both audits.
      await gateway.close();
    }
  });
});

describeSqlite("an upgrade", () => {
  let cli: CliFolder;
  beforeEach(async () => {
    cli = await openCliFolder(configText(config));
  });
  afterEach(() => cli.remove());

  /** What a gateway that does not get as far as serving has logged and printed when it has ended. */
  async function serve(
    during: (child: { kill(signal: NodeJS.Signals): void }) => Promise<void> | void = () => {},
    environment: Readonly<Record<string, string>> = {},
  ): Promise<ChildOutput> {
    const child = Bun.spawn([await binaryPath(), "serve"], {
      cwd: cli.folder,
      env: { PATH: process.env["PATH"] ?? "", ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = outputOf(child);
    await Promise.race([during(child), output]);
    return await output;
  }

  test("by a command tells it on stderr, and stdout stays one document", async () => {
    makeEarlierVersion(cli.database, OF_020);
    const { status, stdout, stderr } = await cli.run("accounts", "list", "--json");
    const [backup = ""] = backupsIn(cli.folder);
    expect({ status, accounts: JSON.parse(stdout) as unknown[] }).toMatchObject({
      status: 0,
      accounts: [{ name: "alice" }, { name: "bob" }],
    });
    expect(stderr).toStartWith("the database is of an earlier version: making a backup of it (");
    expect(stderr).toContain(`made the backup ${backup} in `);
    expect(stderr).toContain(`upgraded the database from schema ${OF_020} to ${KNOWN} in `);
    expect(await cli.run("audit")).toMatchObject({ status: 0, stderr: "" });
  });

  test("with --no-backup makes none, and says so", async () => {
    makeEarlierVersion(cli.database, OF_020);
    const gateway = new ServingProcess([await binaryPath(), "serve", "--no-backup"], cli.folder);
    await gateway.start();
    await gateway.stop();
    expect(gateway.log.map(({ msg }) => msg)).toContain(
      "no backup is made before the upgrade: --no-backup",
    );
    expect(backupsIn(cli.folder)).toEqual([]);
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });

  test("by four commands at once is made by one of them, with one backup", async () => {
    makeEarlierVersion(cli.database, OF_020);
    const runs = await Promise.all(several(4, () => cli.run("accounts", "list")));
    expect(runs.map(({ status }) => status)).toEqual([0, 0, 0, 0]);
    expect(runs.filter(({ stderr }) => stderr.includes("made the backup"))).toHaveLength(1);
    expect(backupsIn(cli.folder)).toHaveLength(1);
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });

  test.each([
    [
      "whose records do not agree",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      "its backup failed: the records of the database do not agree (problems: ",
      "`tollgate audit` of the version before shows all of them",
    ],
    ...(isCopied
      ? [
          [
            "that has rows which its migration refuses",
            "UPDATE requests SET charge = charge - 1 WHERE public_id = 'req_done'",
            "its backup failed: database cannot be migrated to this version, and was not changed: ",
            "`tollgate restore FILE` puts a backup in its place",
          ] as const,
        ]
      : []),
  ])("of a database %s is refused by start and command", async (_, damage, reason, advice) => {
    makeEarlierVersion(cli.database, OF_020);
    tamper({ path: cli.database }, damage);
    const before = contentOf(cli.database);
    for (const run of [() => serve(), () => cli.run("accounts", "list")]) {
      const { status, stderr } = await run();
      expect(status).toBe(1);
      expect(stderr).toContain("error: database was not upgraded and not changed, because ");
      expect(stderr).toContain(reason);
      expect(stderr).toContain(advice);
      expect(contentOf(cli.database)).toEqual(before);
      expect(backupsIn(cli.folder)).toEqual([]);
    }
  });

  test.skipIf(!canMount())("without room for a backup makes none, and warns", async () => {
    makeEarlierVersion(cli.database, OF_020);
    const started = await onSmallDisk("serve");
    expect(started).toMatchObject({ files: [], version: KNOWN });
    const warning = started.stdout.split("\n").find((line) => line.includes('"warn"')) ?? "";
    expect(JSON.parse(warning)).toMatchObject({
      msg: "no backup is made before the upgrade: the disk has not enough room",
      needed_bytes: expect.any(Number),
      free_bytes: expect.any(Number),
    });
    const command = await onSmallDisk("audit");
    expect(command).toMatchObject({ files: [], version: KNOWN });
    expect(command.stderr).toMatch(
      /^warning: no backup is made before the upgrade: it needs up to [\d.]+ MB on the disk of the database, and [\d.]+ MB are free$/m,
    );
    const examined = await onSmallDisk("doctor");
    expect(examined).toMatchObject({ files: [], version: OF_020 });
    expect(examined.stdout).toContain("so it would make no backup: free disk space first");
  });

  /** Runs a command with a copy of the database on a disk of its own of 8 MB, and stops `serve` as soon as it listens. */
  async function onSmallDisk(command: string) {
    const disk = join(cli.folder, "disk");
    const copy = join(cli.folder, `after-${command}.db`);
    const script = `mkdir -p disk; mount -t tmpfs -o size=8m none disk || exit 99
      cp tollgate.db disk/; sed 's|tollgate.db|disk/tollgate.db|' config.toml > small.toml
      if [ "$1" = serve ]; then
        "$0" serve --config small.toml > log & pid=$!
        until grep -q '"msg":"listening"' log; do kill -0 $pid || break; sleep 0.05; done
        kill $pid; wait $pid; cat log
      else "$0" "$1" --config small.toml; fi
      ls disk > names; cp disk/tollgate.db "$2"`;
    const child = Bun.spawn(
      ["unshare", "-rm", "bash", "-c", script, await binaryPath(), command, copy],
      {
        cwd: cli.folder,
        env: { PATH: process.env["PATH"] ?? "" },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    const output = await outputOf(child);
    rmSync(disk, { recursive: true, force: true });
    const names = (await Bun.file(join(cli.folder, "names")).text()).split("\n");
    const files = names.filter((name) => name.includes("before-upgrade"));
    return { ...output, files, version: versionOf(copy) };
  }

  describeFaultyDisk("a migration on a full disk")("whose disk is full after the backup", () => {
    test("fails, and leaves the database as it was and no backup", async () => {
      makeEarlierVersion(cli.database, OF_020);
      // Out of this mode the first write to the database is that of its migration.
      tamper({ path: cli.database }, "PRAGMA journal_mode = WAL");
      const before = contentOf(cli.database);
      const disk = await openFaultyDisk(cli.database);
      disk.first = "fail write 1 ENOSPC 0";
      try {
        const { status, stdout, stderr } = await serve(undefined, disk.environment);
        expect(status).toBe(1);
        expect(stdout).toContain("made a backup before the upgrade");
        expect(stderr).toBe(`error: database has no room left on its disk: ${cli.database}\n`);
      } finally {
        await disk.close();
      }
      expect(contentOf(cli.database)).toEqual(before);
      expect(backupsIn(cli.folder)).toEqual([]);
    });
  });

  describe("of a large database", () => {
    let folder: string;
    let large: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "tollgate-large-"));
      large = join(folder, "large.db");
      makeEarlierVersion(large, OF_020, (sqlite) => addRunningRequests(sqlite, MANY_REQUESTS));
      return async () => await rm(folder, { recursive: true, force: true });
    }, startTimeoutMs);
    beforeEach(() => copyFileSync(large, cli.database));

    const isCopying = () => backupsIn(cli.folder).some((file) => file.endsWith(".partial"));
    const killWhileCopying =
      (signal: NodeJS.Signals) => async (child: { kill(signal: NodeJS.Signals): void }) => {
        await until("it makes the backup", isCopying);
        child.kill(signal);
      };

    test("stops at a signal during its backup, and nothing is changed", async () => {
      const started = await serve(killWhileCopying("SIGTERM"));
      expect(started).toMatchObject({ status: 0, stderr: "" });
      expect(started.stdout).toContain("stopped before the upgrade: nothing was changed");
      expect(backupsIn(cli.folder)).toEqual([]);
      expect(versionOf(cli.database)).toBe(OF_020);
    });

    test.skipIf(!canMount())("learns from its backup that the disk became full", async () => {
      // The room was enough when it was asked for: another program has filled the disk.
      const program = `
        import { backUp } from ${JSON.stringify(storeModule)};
        const stopped = new Promise(() => undefined);
        await backUp({ database: "tollgate.db", file: "disk/copy.db", stopped })
          .catch((error) => console.log(error.constructor.name, error.message));`;
      const script = `mkdir disk; mount -t tmpfs -o size=1m none disk || exit 99
        "$0" -e "$1"; ls disk`;
      const child = Bun.spawn(["unshare", "-rm", "bash", "-c", script, process.execPath, program], {
        cwd: cli.folder,
        stdio: ["ignore", "pipe", "pipe"],
      });
      expect(await outputOf(child)).toEqual({
        stdout: "NoRoomError cannot write into disk: no room left on its disk\n",
        stderr: "",
        status: 0,
      });
    });

    test("by a command stops at a signal during its backup, and ends at one during its migration", async () => {
      for (const [said, status, stderr, backups] of [
        ["making a backup", 1, "error: stopped: nothing was changed", 0],
        ...(isCopied
          ? [["migrating the database: 20000 ", null, "migrating the database", 1] as const]
          : []),
      ] as const) {
        const child = Bun.spawn([await binaryPath(), "accounts", "list"], {
          cwd: cli.folder,
          env: { PATH: process.env["PATH"] ?? "" },
          stdio: ["ignore", "ignore", "pipe"],
        });
        let printed = "";
        for await (const chunk of child.stderr) {
          const hadSaid = printed.includes(said);
          printed += Buffer.from(chunk).toString();
          if (!hadSaid && printed.includes(said)) child.kill("SIGINT");
        }
        await child.exited;
        expect({ status: child.exitCode, printed }).toEqual({
          status,
          printed: expect.stringContaining(stderr),
        });
        expect(versionOf(cli.database)).toBe(OF_020);
        expect(backupsIn(cli.folder)).toHaveLength(backups);
      }
      expect(await cli.json("audit")).toMatchObject({ ok: true });
    });

    test("is killed during its backup: the next one removes what is left, and upgrades", async () => {
      await serve(killWhileCopying("SIGKILL"));
      expect(versionOf(cli.database)).toBe(OF_020);
      expect(isCopying()).toBe(true);
      const audit = await cli.run("audit");
      expect(audit).toMatchObject({ status: 0 });
      if (isCopied)
        expect(audit.stderr).toContain(
          `checking the backup: 20000 of ${MANY_REQUESTS + 9} requests`,
        );
      expect(backupsIn(cli.folder)).toHaveLength(1);
      expect(isCopying()).toBe(false);
    });

    test("by a command changes nothing if a gateway of the version before starts meanwhile", async () => {
      const running = cli.run("accounts", "list");
      await until("it makes the backup", isCopying);
      const lock = takeInstanceLock(cli.database);
      const { status, stderr } = await running;
      lock?.release();
      expect(status).toBe(1);
      expect(stderr).toContain("a gateway is running on it: restart the gateway first");
      expect(versionOf(cli.database)).toBe(OF_020);
      expect(backupsIn(cli.folder)).toEqual([]);
    });

    test("by a gateway lets a command wait, which then works or says what to do", async () => {
      const gateway = new ServingProcess([await binaryPath(), "serve"], cli.folder);
      const started = gateway.start();
      await until("it makes the backup", isCopying);
      const { status, stdout, stderr } = await cli.run("accounts", "list");
      await started;
      await gateway.stop();
      if (status === 0) expect(stdout).toContain("alice");
      else expect(stderr).toContain("which may be upgrading it: try again when that has ended");
      expect(backupsIn(cli.folder)).toHaveLength(1);
      expect(await cli.json("audit")).toMatchObject({ ok: true });
    });
  });
});

function versionOf(path: string): number {
  const sqlite = new Database(path, { readonly: true });
  try {
    return (
      sqlite.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? -1
    );
  } finally {
    sqlite.close();
  }
}

/** Whether this user may mount a disk of its own, which not every container allows. */
function canMount(): boolean {
  if (Bun.which("unshare") === null) return false;
  return Bun.spawnSync(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).success;
}
