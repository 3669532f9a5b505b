import { RedisClient, SQL } from "bun";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describePostgres, describeRedis } from "./describeServers.ts";
import { databaseFrom, freshDatabase, startPostgres } from "./postgres.ts";
import { startRedis, type RedisServer } from "./redis.ts";

async function ask(url: string, text: string): Promise<unknown> {
  await using sql = new SQL(url, { max: 1 });
  return await sql.unsafe(text).values();
}

describePostgres("a PostgreSQL server for tests", () => {
  test("gives each test a database of its own, until the test drops it", async () => {
    const [one, other] = await Promise.all([freshDatabase(), freshDatabase()]);
    await ask(one.url, "CREATE TABLE only_here (id bigint)");
    expect(await ask(other.url, "SELECT to_regclass('only_here')")).toEqual([[null]]);
    await using open = new SQL(one.url, { max: 1 });
    await open`SELECT 1`;
    await one.drop();
    const rest = await ask(other.url, "SELECT datname FROM pg_database WHERE datname LIKE 'test%'");
    expect(rest).toContainEqual([new URL(other.url).pathname.slice(1)]);
    expect(rest).not.toContainEqual([new URL(one.url).pathname.slice(1)]);
    await other.drop();
  });

  test("prepares a template once and copies it", async () => {
    const name = `template_${process.pid}`;
    let prepared = 0;
    const prepare = async (url: string): Promise<void> => {
      prepared += 1;
      await ask(url, "CREATE TABLE made (id bigint)");
    };
    const copies = await Promise.all([1, 2, 3].map(() => databaseFrom(name, prepare)));
    for (const { url } of copies) expect(await ask(url, "SELECT * FROM made")).toEqual([]);
    expect(prepared).toBe(1);
    await using server = await freshDatabase();
    await Promise.all(copies.map((copy) => copy.drop()));
    await ask(server.url, `DROP DATABASE ${name}`);
  });

  describe("a copy of a template", () => {
    const name = `kept_${process.pid}`;
    const copy = () =>
      databaseFrom(name, async (url) => {
        await ask(url, "CREATE TABLE made (id bigint GENERATED ALWAYS AS IDENTITY, note text)");
        await ask(url, "INSERT INTO made (note) VALUES ('first')");
      });
    afterAll(async () => {
      await using server = await freshDatabase();
      await ask(server.url, `DROP DATABASE ${name}`);
    });

    test("serves the next test as if it was new", async () => {
      const one = await copy();
      await ask(one.url, "INSERT INTO made (note) VALUES ('of a test')");
      await ask(one.url, "UPDATE made SET note = 'changed' WHERE id = 1");
      await using open = new SQL(one.url, { max: 1 });
      await open`SELECT 1`;
      await Promise.all([one.drop(), one.drop()]);
      await using next = await copy();
      expect(next.url).toBe(one.url);
      expect(await ask(next.url, "SELECT * FROM made")).toEqual([["1", "first"]]);
      const added = "INSERT INTO made (note) VALUES ('second') RETURNING id";
      expect(await ask(next.url, added)).toEqual([["2"]]);
      await using other = await copy();
      expect(other.url).not.toBe(next.url);
    });

    const settings =
      "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 5000', current_database()); END $$";
    test.each([
      ["a table was made", "CREATE TABLE another (id bigint)"],
      ["a column was added", "ALTER TABLE made ADD COLUMN more text"],
      ["a constraint was added", "ALTER TABLE made ADD CHECK (id > 0)"],
      ["a right was given", "GRANT SELECT ON made TO public"],
      ["a setting was changed", settings],
      [
        "many rows were written",
        `INSERT INTO made (note) SELECT repeat('x', 1000) FROM generate_series(1, 9000)`,
      ],
    ])("serves nobody else when %s", async (_, change) => {
      const one = await copy();
      await ask(one.url, change);
      await one.drop();
      await using next = await copy();
      expect(next.url).not.toBe(one.url);
    });
  });

  test("can be restarted, killed and started again, and keeps what was committed", async () => {
    const server = await startPostgres(["work_mem=5MB"]);
    try {
      await ask(server.url(), "CREATE TABLE kept AS SELECT 7::bigint AS value");
      await server.restart();
      expect(
        await ask(server.url(), "SELECT value, current_setting('work_mem') FROM kept"),
      ).toEqual([["7", "5MB"]]);
      await server.kill();
      expect(ask(server.url(), "SELECT 1")).rejects.toThrow();
      await server.start();
      expect(await ask(server.url(), "SELECT value FROM kept")).toEqual([["7"]]);
    } finally {
      await server.close();
    }
  });
});

describeRedis("a Redis server for tests", () => {
  let server: RedisServer;
  let client: RedisClient;
  beforeAll(async () => {
    server = await startRedis();
    client = new RedisClient(server.url);
  });
  afterAll(async () => {
    client.close();
    await server.close();
  });

  test("answers late while it is paused, and forgets all when it is killed", async () => {
    await client.set("a", "1");
    server.pause();
    const late = client.get("a");
    expect(await Promise.race([late, Bun.sleep(50).then(() => "no answer")])).toBe("no answer");
    server.resume();
    expect(await late).toBe("1");
    await server.kill();
    await server.start();
    const other = new RedisClient(server.url);
    expect(await other.get("a")).toBeNull();
    other.close();
  });

  test("ends with the process that started it, also after SIGKILL", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-watch-"));
    const support = join(import.meta.dir, "redis.ts");
    const file = join(folder, "starts.test.ts");
    await Bun.write(
      file,
      `import { test } from "bun:test";
       import { startRedis } from ${JSON.stringify(support)};
       test("starts", async () => {
         console.log("URL " + (await startRedis()).url);
         process.kill(process.pid, "SIGKILL");
       });`,
    );
    const child = Bun.spawn([process.execPath, "test", file], {
      cwd: folder,
      env: { ...process.env, TMPDIR: folder },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [, url = ""] = /URL (\S+)/.exec(await new Response(child.stdout).text()) ?? [];
    const orphan = new RedisClient(url, { autoReconnect: false });
    for (let open = true; open;)
      open = await orphan.ping().then(
        () => true,
        () => false,
      );
    const rest = async (): Promise<string[]> =>
      (await readdir(folder)).filter((name) => name.startsWith("tollgate-redis"));
    while ((await rest()).length > 0) await Bun.sleep(5);
    orphan.close();
    await rm(folder, { recursive: true });
    expect(existsSync(folder)).toBe(false);
  });
});
