import { RedisClient, SQL } from "bun";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { until } from "../until.ts";
import { describePostgres, describeRedis } from "./describeServers.ts";
import { freshDatabase, type TestDatabase } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import { startTcpProxy, type TcpProxy } from "./tcpProxy.ts";

describePostgres("a proxy before PostgreSQL", () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let direct: SQL;
  let sql: SQL;
  beforeEach(async () => {
    database = await freshDatabase();
    proxy = await startTcpProxy(Number(new URL(database.url).port));
    direct = new SQL(database.url, { max: 1 });
    sql = new SQL(proxy.through(database.url), { max: 1, connectionTimeout: 2 });
    await direct`CREATE TABLE notes (id bigint)`;
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
    await Promise.all([sql.close({ timeout: 0 }), direct.close({ timeout: 0 })]);
    await database.drop();
  });

  const notes = async () => (await direct`SELECT id FROM notes ORDER BY id`.values()).flat();
  const add = async (id: number) => await sql.begin((tx) => tx`INSERT INTO notes VALUES (${id})`);

  test("passes what is large, both ways", async () => {
    const text = "x".repeat(5_000_000);
    expect(await sql`SELECT length(${text}), ${text}::text AS same`.values()).toEqual([
      [text.length, text],
    ]);
  });

  const commits: readonly [string, (id: number) => Promise<unknown>][] = [
    ["of a transaction", add],
    [
      "of a simple query",
      (id) => sql.unsafe(`BEGIN; INSERT INTO notes VALUES (${id}); COMMIT`).simple(),
    ],
    [
      "that is prepared",
      async (id) => {
        await using one = await sql.reserve();
        await one`BEGIN`;
        await one`INSERT INTO notes VALUES (${id})`;
        await one`COMMIT`;
      },
    ],
  ];
  for (const [what, commit] of commits) {
    test(`loses the reply to the COMMIT ${what}, once`, async () => {
      const dropped = proxy.dropReplyAfterCommit();
      expect(commit(1)).rejects.toThrow();
      await dropped;
      expect(await notes()).toEqual(["1"]);
      await commit(2);
      expect(await notes()).toEqual(["1", "2"]);
    });

    test(`loses the COMMIT ${what}, once`, async () => {
      const dropped = proxy.dropCommit();
      expect(commit(1)).rejects.toThrow();
      await dropped;
      expect(await notes()).toEqual([]);
      await commit(2);
      expect(await notes()).toEqual(["2"]);
    });
  }

  test("does not count a COMMIT that fails", async () => {
    await direct`CREATE TABLE checked (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)`;
    const dropped = proxy.dropReplyAfterCommit();
    const twice = sql.begin(async (tx) => tx`INSERT INTO checked VALUES (1), (1)`);
    expect(twice).rejects.toThrow("duplicate key");
    await twice.catch(() => undefined);
    expect(add(3)).rejects.toThrow();
    await dropped;
    expect(await notes()).toEqual(["3"]);
  });

  test("holds everything while it hangs, and passes it later", async () => {
    await add(1);
    proxy.hang();
    let isDone = false;
    const late = add(2).then(() => (isDone = true));
    await Bun.sleep(50);
    expect([isDone, await notes()]).toEqual([false, ["1"]]);
    proxy.pass();
    await late;
    expect(await notes()).toEqual(["1", "2"]);
  });

  test("resets open connections, and refuses new ones until it passes", async () => {
    await add(1);
    expect(proxy.open).toBe(1);
    const hanging = sql`SELECT pg_sleep(60)`.then(() => "done");
    await until("the query runs", () => proxy.open === 1);
    await proxy.refuse();
    await Bun.sleep(20);
    proxy.reset();
    expect(hanging).rejects.toThrow();
    await hanging.catch(() => undefined);
    await until("the connection is gone", () => proxy.open === 0);
    expect(add(2)).rejects.toThrow();
    await add(2).catch(() => undefined);
    proxy.pass();
    await add(3);
    expect(await notes()).toEqual(["1", "3"]);
  });
});

describeRedis("a proxy before Redis", () => {
  test("passes, hangs and resets", async () => {
    const server = await startRedis();
    await using proxy = await startTcpProxy(server.port);
    const client = new RedisClient(proxy.through(server.url), { autoReconnect: false });
    await client.set("a", "1");
    proxy.hang();
    const late = client.get("a");
    expect(await Promise.race([late, Bun.sleep(30).then(() => "late")])).toBe("late");
    proxy.pass();
    expect(await late).toBe("1");
    proxy.reset();
    await until("the connection is gone", () => proxy.open === 0);
    expect(client.get("a")).rejects.toThrow();
    client.close();
    await server.close();
  });
});
