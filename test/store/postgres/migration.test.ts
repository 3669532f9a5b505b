import { SQL } from "bun";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { requireDurableServer } from "../../../src/store/postgres/durability.ts";
import {
  knownSchema,
  migrateServer,
  planUpgrade,
  readServerSchema,
  versionOf,
} from "../../../src/store/postgres/schema/migrations.ts";
import { inspectServer } from "../../../src/store/open.ts";
import { StoreError } from "../../../src/store/store.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase, startPostgres, type TestDatabase } from "../../support/servers/postgres.ts";
import { several } from "../../support/several.ts";
import { laterSchema } from "../../support/store/laterSchema.ts";

const KNOWN = versionOf(knownSchema);
/** The last release that changed what the version before it uses. */
const OLDEST = Math.max(...knownSchema.releases.map(({ oldest }) => oldest));

const expanding = { oldest: KNOWN, statements: ["ALTER TABLE accounts ADD nickname text"] };
const contracting = { oldest: KNOWN + 2, statements: ["ALTER TABLE accounts DROP nickname"] };
const broken = {
  oldest: KNOWN + 2,
  statements: ["ALTER TABLE accounts ADD half text", "ALTER TABLE nothing ADD other_half text"],
};

describePostgres("a PostgreSQL database at its opening", () => {
  let database: TestDatabase;
  let sql: SQL;
  beforeEach(async () => {
    database = await freshDatabase();
    sql = new SQL(database.url, { max: 1, bigint: true });
  });
  afterEach(async () => {
    await sql.close();
    await database.drop();
  });

  const version = async () =>
    (await sql`SELECT applied::int, oldest::int FROM schema_version`.values()).flat();
  /** All that the schema consists of. A migration that runs again would change the numbers. */
  const catalog = async () => [
    ...(await sql`SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY oid`.values()),
    ...(await sql`SELECT oid, tgname FROM pg_trigger ORDER BY oid`.values()),
    ...(await sql`SELECT * FROM schema_version`.values()),
  ];

  test("that is empty gets the tables, and the next opening changes nothing", async () => {
    expect(await readServerSchema(sql)).toBeUndefined();
    expect(await migrateServer(sql)).toBe(true);
    expect(await version()).toEqual([KNOWN, OLDEST]);
    const before = await catalog();
    expect(await migrateServer(sql)).toBe(false);
    expect(await catalog()).toEqual(before);
    expect(await readServerSchema(sql)).toEqual({ applied: KNOWN, oldest: OLDEST, known: KNOWN });
  });

  test("may have tables of extensions and of other schemas", async () => {
    await sql.unsafe("CREATE SCHEMA other; CREATE TABLE other.accounts (id bigint)");
    await sql.unsafe("CREATE EXTENSION pg_stat_statements");
    expect(await migrateServer(sql)).toBe(true);
  });

  test("that is empty is migrated by one of eight processes, which all can use it then", async () => {
    const file = resolve("src/store/postgres/schema/migrations.ts");
    const program = `import { migrateServer } from ${JSON.stringify(file)};
      const sql = new Bun.SQL(${JSON.stringify(database.url)}, { max: 1 });
      const wasEmpty = await migrateServer(sql);
      await sql\`SELECT * FROM history\`;
      console.log(wasEmpty);
      await sql.close();`;
    const processes = several(8, () =>
      Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" }),
    );
    const outputs = await Promise.all(processes.map(({ stdout }) => new Response(stdout).text()));
    expect(outputs.toSorted()).toEqual([...several(7, () => "false\n"), "true\n"]);
    expect(await version()).toEqual([KNOWN, OLDEST]);
  });

  test("of another program is refused and stays as it is", async () => {
    await sql`CREATE TABLE customers (id bigint)`;
    expect(migrateServer(sql)).rejects.toThrow("tables of another program");
    expect(readServerSchema(sql)).rejects.toThrow("tables of another program");
    expect(inspectServer({ url: database.url, shownUrl: "the url" })).rejects.toThrow(
      "the url: the database has tables of",
    );
    const tables = await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`.values();
    expect(tables.flat()).toEqual(["customers"]);
  });

  test.each([
    ["has other columns", "CREATE TABLE schema_version (version text)"],
    ["is empty", "CREATE TABLE schema_version (applied bigint, oldest bigint)"],
  ])("whose table of versions %s is that of another program", async (_, statement) => {
    await sql.unsafe(statement);
    expect(migrateServer(sql)).rejects.toThrow("tables of another program");
  });

  test("that is older is migrated one release after the other, and that is told before", async () => {
    const told: unknown[] = [];
    const tell = { onUpgrade: (found: unknown) => told.push(found) };
    await migrateServer(sql, knownSchema, tell);
    expect(await migrateServer(sql, laterSchema(expanding, contracting), tell)).toBe(false);
    expect(await migrateServer(sql, laterSchema(expanding, contracting), tell)).toBe(false);
    expect(told).toEqual([{ applied: KNOWN, oldest: OLDEST, known: KNOWN + 2 }]);
    expect(await version()).toEqual([KNOWN + 2, KNOWN + 2]);
  });

  test("that a newer version has only added to is used as it is", async () => {
    await migrateServer(sql, laterSchema(expanding));
    const before = await catalog();
    expect(await migrateServer(sql)).toBe(false);
    expect(await catalog()).toEqual(before);
    expect(await readServerSchema(sql)).toEqual({
      applied: KNOWN + 1,
      oldest: KNOWN,
      known: KNOWN,
    });
  });

  test("that a newer version has changed is refused in words", async () => {
    await migrateServer(sql, laterSchema(expanding, contracting));
    const refused = migrateServer(sql, laterSchema(expanding));
    expect(refused).rejects.toThrow(StoreError);
    expect(refused).rejects.toThrow(/was upgraded by a newer version .*: upgrade this one/);
    const { schema } = await inspectServer({ url: database.url, shownUrl: "the url" });
    expect(schema).toEqual({ applied: KNOWN + 2, oldest: KNOWN + 2, known: KNOWN });
  });

  test("that a version before 0.2.0 made is refused in words, and nothing is changed", async () => {
    await migrateServer(sql);
    await sql`ALTER TABLE schema_version DISABLE TRIGGER USER`;
    await sql`UPDATE schema_version SET applied = 2, oldest = 2`;
    const before = await catalog();
    const sentence = "start tollgate 0.2.0 on it once, and then this version";
    expect(migrateServer(sql)).rejects.toThrow(sentence);
    expect(planUpgrade(sql)).rejects.toThrow(sentence);
    expect(await catalog()).toEqual(before);
  });

  test("keeps the releases before one that fails, and nothing of that one", async () => {
    const failing = laterSchema(expanding, broken);
    expect(await readServerSchema(sql)).toBeUndefined();
    const refused = migrateServer(sql, failing);
    expect(refused).rejects.toThrow(StoreError);
    expect(refused).rejects.toThrow(/cannot be migrated .*"nothing" does not exist/);
    await refused.catch(() => undefined);
    expect(await version()).toEqual([KNOWN + 1, KNOWN]);
    const columns = await sql`
      SELECT attname FROM pg_attribute WHERE attrelid = 'accounts'::regclass AND attname IN ('nickname', 'half')`;
    expect(columns.map(({ attname }: { attname: string }) => attname)).toEqual(["nickname"]);
    expect(await migrateServer(sql, laterSchema(expanding, contracting))).toBe(false);
  });

  test("may take longer than the time that the user has for a statement", async () => {
    const name = new URL(database.url).pathname.slice(1);
    await sql.unsafe(`ALTER DATABASE ${name} SET statement_timeout = '20ms'`);
    await using other = new SQL(database.url, { max: 1 });
    const slow = { oldest: KNOWN, statements: ["SELECT pg_sleep(0.1)"] };
    expect(await migrateServer(other, laterSchema(slow))).toBe(true);
  });

  test("waits for another process that migrates it", async () => {
    await using other = new SQL(database.url, { max: 1 });
    const { promise, resolve: commit } = Promise.withResolvers<void>();
    const isLocked = Promise.withResolvers<void>();
    const holder = other.begin(async (transaction) => {
      await transaction`SELECT pg_advisory_xact_lock(7035401)`;
      isLocked.resolve();
      await promise;
    });
    await isLocked.promise;
    await using waiting = new SQL(database.url, { max: 1 });
    const migrated = migrateServer(waiting);
    const waits = async () =>
      await sql`SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
    while ((await waits()).length === 0);
    expect(await readServerSchema(sql)).toBeUndefined();
    commit();
    await holder;
    expect(await migrated).toBe(true);
  });

  describe("on a server", () => {
    test("that keeps what it has committed is accepted", async () => {
      await requireDurableServer(sql);
    });

    test.each([
      ["forgets commits", "synchronous_commit = off", "synchronous_commit is off"],
      ["is read-only", "default_transaction_read_only = on", "nothing can be written"],
    ])("that %s, for this database or this user alone, is refused", async (_, setting, words) => {
      const name = new URL(database.url).pathname.slice(1);
      await sql.unsafe(`ALTER DATABASE ${name} SET ${setting}`);
      await using own = new SQL(database.url, { max: 1 });
      expect(requireDurableServer(own)).rejects.toThrow(StoreError);
      expect(requireDurableServer(own)).rejects.toThrow(words);
    });

    test("that is a standby is refused", async () => {
      const server = await startPostgres();
      try {
        await using primary = new SQL(server.url(), { max: 1 });
        // A server that finds this file follows another one.
        const [{ folder }] = await primary`SELECT current_setting('data_directory') AS folder`;
        await primary.unsafe(`COPY (SELECT) TO '${folder}/standby.signal'`);
        await server.restart();
        await using standby = new SQL(server.url(), { max: 1 });
        expect(requireDurableServer(standby)).rejects.toThrow("use the URL of the primary");
      } finally {
        await server.close();
      }
    });
  });
});
