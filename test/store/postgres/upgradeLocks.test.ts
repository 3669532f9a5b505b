import { SQL } from "bun";
import { expect, test } from "bun:test";
import {
  versionOf,
  knownSchema,
  migrateServer,
} from "../../../src/store/postgres/schema/migrations.ts";
import { StoppedError } from "../../../src/store/store.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { openLongReader } from "../../support/servers/longReader.ts";
import { laterSchema } from "../../support/store/laterSchema.ts";
import { openReplica, openBooksBefore } from "../../support/store/replica.ts";
import { costOfEnded, ended } from "../../support/store/storeFolder.ts";
import { until } from "../../support/until.ts";

describePostgres("an upgrade beside a long reader", () => {
  const { database, books } = openBooksBefore();

  const KNOWN = versionOf(knownSchema);
  const nickname = { oldest: KNOWN, statements: ["ALTER TABLE accounts ADD nickname text"] };
  const phone = { oldest: KNOWN, statements: ["ALTER TABLE accounts ADD phone text"] };

  const longReader = (application: string) => openLongReader(database.url, "accounts", application);

  /** An upgrade by a process of its own. */
  function upgrade(schema = laterSchema(nickname), stopped?: Promise<void>) {
    const sql = new SQL(database.url, { max: 2, bigint: true });
    const told: string[] = [];
    const onBlocked = ({ blockers }: { blockers: string }) => told.push(blockers);
    const run = async () => {
      try {
        return await migrateServer(sql, schema, { onBlocked, ...(stopped && { stopped }) });
      } finally {
        await sql.close({ timeout: 0 });
      }
    };
    return { told, ended: run() };
  }

  const migrations = async () => {
    const [row] = await books.sql`SELECT applied::int FROM schema_version`;
    return row.applied as number;
  };

  test("goes on trying, names the reader, and lets the charges of a replica through", async () => {
    await using replica = await openReplica(database.url);
    const owner = await books.open("alice", 1000n * costOfEnded);
    await replica.reserve({ accountId: owner.accountId, reserved: String(1000n * costOfEnded) });
    // As the gateway does: a charge waits while a table is locked for a moment.
    const charge = (id: string) =>
      replica.writer.writeWithin({ kind: "recordRequest", record: ended(id, owner) });
    const reader = await longReader("pg_dump");
    const { told, ended: upgraded } = upgrade(laterSchema(nickname, phone));
    let longestMs = 0;
    let isFree = false;
    let freeAtMs: number | undefined;
    for (let count = 0; !isFree; count += 1) {
      const beganMs = performance.now();
      await charge(`req_${count}`);
      expect(replica.writer.blockedBy).toBeUndefined();
      longestMs = Math.max(longestMs, performance.now() - beganMs);
      // The second try has begun meanwhile.
      isFree = told.length > 0 && performance.now() > (freeAtMs ??= performance.now() + 2000);
      await Bun.sleep(20);
    }
    expect(longestMs).toBeLessThan(6000);
    expect(await migrations()).toBe(KNOWN);
    await reader.end();
    expect(await upgraded).toBe(false);
    expect(await migrations()).toBe(KNOWN + 2);
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(
      new RegExp(
        `^pid ${reader.pid} \\(pg_dump, user postgres, since 20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ\\)$`,
      ),
    );
    await charge("req_last");
  });

  test("leaves the tries to the process that came first", async () => {
    const reader = await longReader("long report");
    const first = upgrade();
    await until("the first one is blocked", () => first.told.length > 0);
    const second = upgrade();
    await until("the second one is blocked", () => second.told.length > 0);
    const [{ pid }] = await books.sql`
      SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = 7035401
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
    expect(first.told[0]).toContain(`pid ${reader.pid} (long report, `);
    expect(second.told[0]).toContain(`pid ${pid} (`);
    await reader.end();
    expect(await Promise.all([first.ended, second.ended])).toEqual([false, false]);
    expect(await migrations()).toBe(KNOWN + 1);
  });

  test("ends with the signal that stops the start, and changes nothing", async () => {
    const reader = await longReader("psql");
    const stop = Promise.withResolvers<void>();
    const { told, ended: upgraded } = upgrade(laterSchema(nickname), stop.promise);
    await until("it is blocked", () => told.length > 0);
    stop.resolve();
    expect(upgraded).rejects.toThrow(StoppedError);
    await upgraded.catch(() => undefined);
    expect(await migrations()).toBe(KNOWN);
    await reader.end();
    // What it had locked is free.
    expect(await upgrade().ended).toBe(false);
  });
});
