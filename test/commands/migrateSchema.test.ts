import { SQL } from "bun";
import { afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import type { SchemaUpgradeDocument } from "../../src/contract/operator/schemaUpgrade.ts";
import {
  versionOf,
  knownSchema,
  migrateServer,
} from "../../src/store/postgres/schema/migrations.ts";
import { migrationsBetween } from "../../src/store/schema/migrationFiles.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { ServingProcess } from "../support/binary/servingProcess.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { openLongReader } from "../support/servers/longReader.ts";
import { freshDatabase, type TestDatabase } from "../support/servers/postgres.ts";
import { makeEmptyVersion, versionsOf } from "../support/store/earlierVersion.ts";
import { describeSqlite } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";

const timeoutMs = 60_000;
const provider = "http://127.0.0.1:9/v1";
const UP_TO_DATE = 0;
const SOMETHING_TO_DO = 3;

let cli: CliFolder;
const planned = async () => {
  const { status, stdout } = await cli.run("migrate-schema", "--plan", "--json");
  return { status, ...(JSON.parse(stdout) as SchemaUpgradeDocument) };
};

describeSqlite("migrate-schema on a SQLite file", () => {
  const tags = migrationsBetween("sqlite", 0);
  const KNOWN = versionsOf("sqlite").at(-1) ?? 0;
  beforeEach(async () => {
    cli = await openCliFolder(configText(oneModel(provider)));
  });
  afterEach(() => cli.remove());

  test("makes a new one, and finds nothing to do then", async () => {
    const releases = [{ migrations: [...tags], version_before_goes_on: null }];
    const all = { database: cli.database, known: KNOWN, releases };
    expect(await planned()).toEqual({ status: SOMETHING_TO_DO, ...all, plan: true, applied: 0 });
    expect(existsSync(cli.database)).toBe(false);
    expect(await cli.json("migrate-schema")).toEqual({ ...all, plan: false, applied: KNOWN });
    expect(await planned()).toMatchObject({ status: UP_TO_DATE, applied: KNOWN, releases: [] });
    expect(await cli.run("migrate-schema")).toEqual({
      status: 0,
      stdout: `${cli.database} has schema ${KNOWN} of ${KNOWN}: nothing to do`,
      stderr: "",
    });
  });

  test("upgrades an older one after a backup", async () => {
    makeEmptyVersion(cli.database, KNOWN - 1);
    expect(await planned()).toMatchObject({
      status: SOMETHING_TO_DO,
      applied: KNOWN - 1,
      releases: [{ migrations: tags.slice(-1), version_before_goes_on: false }],
    });
    const { status, stdout, stderr } = await cli.run("migrate-schema");
    expect(status).toBe(0);
    expect(stdout).toContain(`had schema ${KNOWN - 1} of ${KNOWN}: this was applied`);
    expect(stdout).toMatch(new RegExp(`^${tags.at(-1)} +must be stopped before$`, "m"));
    expect(stderr).toContain("made the backup ");
    expect(readdirSync(cli.folder).filter((name) => name.includes("before-upgrade"))).toHaveLength(
      1,
    );
    expect(await planned()).toMatchObject({ status: UP_TO_DATE });
  });
});

describePostgres("migrate-schema on a PostgreSQL server", () => {
  const KNOWN = versionOf(knownSchema);
  // A reader of the keys blocks the release behind the first one.
  const earlier = { ...knownSchema, releases: knownSchema.releases.slice(0, 1) };
  const later = knownSchema.releases.slice(1);
  let database: TestDatabase;
  let binary: string;
  beforeAll(async () => {
    binary = await binaryPath();
  }, timeoutMs);
  beforeEach(async () => {
    database = await freshDatabase();
    cli = await openCliFolder(configText(oneModel(provider, { database: { url: database.url } })));
  });
  afterEach(async () => {
    await cli.remove();
    await database.drop();
  });

  async function makeEarlier(): Promise<void> {
    await using sql = new SQL(database.url, { max: 2, bigint: true });
    await migrateServer(sql, earlier);
  }

  test("makes the tables, and finds nothing to do then", async () => {
    expect(await planned()).toMatchObject({ status: SOMETHING_TO_DO, applied: 0, known: KNOWN });
    expect(await planned()).toMatchObject({ status: SOMETHING_TO_DO, applied: 0 });
    expect(await cli.json("migrate-schema")).toMatchObject({ plan: false, applied: KNOWN });
    expect(await planned()).toMatchObject({ status: UP_TO_DATE, applied: KNOWN, releases: [] });
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });

  test(
    "names what blocks it, and goes on when that has ended",
    async () => {
      await makeEarlier();
      const goesOn = ({ oldest }: { oldest: number }) => oldest <= versionOf(earlier);
      const releases = later.map((release) => ({
        migrations: release.migrations.slice(),
        version_before_goes_on: goesOn(release),
      }));
      expect(await planned()).toMatchObject({
        status: SOMETHING_TO_DO,
        applied: versionOf(earlier),
        releases,
      });
      const reader = await openLongReader(database.url, "keys", "pg_dump");
      const child = Bun.spawn([binary, "migrate-schema"], {
        cwd: cli.folder,
        stdio: ["ignore", "pipe", "pipe"],
      });
      let notices = "";
      const reading = (async () => {
        for await (const bytes of child.stderr) notices += new TextDecoder().decode(bytes);
      })();
      const waiting = `the upgrade waits for a lock of pid ${reader.pid} (pg_dump, user postgres, since 20`;
      await until("it is blocked", () => notices.includes(waiting));
      await reader.end();
      expect(await child.exited).toBe(0);
      const told = await child.stdout.text();
      for (const release of later) {
        const advice = goesOn(release) ? "can go on beside it" : "must be stopped before";
        expect(told).toMatch(new RegExp(`^${release.migrations.join(", ")} +${advice}$`, "m"));
      }
      await reading;
      expect(notices).toContain(`from schema ${versionOf(earlier)} to ${KNOWN}`);
      expect(await planned()).toMatchObject({ status: UP_TO_DATE });
    },
    timeoutMs,
  );

  test(
    "serve names it in its log, and a signal ends the start",
    async () => {
      await makeEarlier();
      const reader = await openLongReader(database.url, "keys", "psql");
      const gateway = new ServingProcess([binary, "serve"], cli.folder);
      const starting = gateway.start();
      starting.catch(() => undefined);
      await until("it is blocked", () =>
        gateway.log.some(({ event }) => event === "upgrade_blocked"),
      );
      const line = gateway.log.find(({ event }) => event === "upgrade_blocked");
      expect(line).toMatchObject({ level: "warn", duration_ms: expect.any(Number) });
      expect(line?.["problem"]).toStartWith(`pid ${reader.pid} (psql, user postgres, since 20`);
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      expect(gateway.log.at(-1)?.msg).toContain("stopped while the upgrade waited for a lock");
      await reader.end();
      expect(await planned()).toMatchObject({ status: SOMETHING_TO_DO });
      await gateway.start();
      expect(gateway.log.some(({ msg }) => msg === "upgraded the database")).toBe(true);
      await gateway.stop();
    },
    timeoutMs,
  );
});
