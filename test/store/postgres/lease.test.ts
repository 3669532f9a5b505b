import { SQL } from "bun";
import { expect, test } from "bun:test";
import { endReplica } from "../../../src/store/postgres/writer/replicas.ts";
import { Session } from "../../../src/store/postgres/writer/session.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { openReplica, type Replica, openBooksBefore } from "../../support/store/replica.ts";
import { costOfEnded, ended, running, type Owner } from "../../support/store/storeFolder.ts";
import { until } from "../../support/until.ts";

describePostgres("the lease of a replica", () => {
  const { database, books } = openBooksBefore();

  const reserve = (replica: Replica, { accountId }: Owner, amount: bigint) =>
    replica.reserve({ accountId, reserved: String(amount) });
  /** As if the replica had sent no heartbeat for 16 seconds. */
  const silence = (replica: Replica) =>
    books.sql`UPDATE replicas SET seen_at = seen_at - 16000 WHERE id = ${replica.lease.id}`;

  test("is renewed by the clock of the database, whatever the clock of the machine says", async () => {
    const clock = { ...systemClock, epochMs: () => Date.now() - 3_600_000 };
    await using replica = await openReplica(database.url, { clock });
    const read = async () => {
      const [row] = await books.sql`SELECT seen_at,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint - seen_at AS age FROM replicas`;
      return row as { seen_at: bigint; age: bigint };
    };
    const first = await read();
    expect(Number(first.age)).toBeLessThan(60_000);
    let last = first;
    while (last.seen_at === first.seen_at) last = await read();
    expect(Number(last.seen_at - first.seen_at)).toBeWithin(1500, 15_000);
    expect(Number(last.age)).toBeLessThan(60_000);
    expect(replica.lease.isValid).toBe(true);
  });

  test("is not valid when the last heartbeat is more than ten seconds ago by the monotonic clock", async () => {
    let aheadMs = 0;
    const clock = { ...systemClock, monotonicMs: () => performance.now() + aheadMs };
    await using replica = await openReplica(database.url, { clock });
    expect(replica.lease.isValid).toBe(true);
    aheadMs = 10_500;
    expect(replica.lease.isValid).toBe(false);
    await until("the next heartbeat", () => replica.lease.isValid);
    expect(replica.told).toEqual([]);
  });

  test("counts the replicas that live", async () => {
    await using one = await openReplica(database.url);
    expect(one.lease.liveReplicas).toBe(1);
    await using other = await openReplica(database.url);
    expect(other.lease.liveReplicas).toBe(2);
    await until("the first one knows of the other", () => one.lease.liveReplicas === 2);
  });

  test("is released at the stop, with all blocks", async () => {
    const owner = await books.open("alice", 1000n);
    {
      await using replica = await openReplica(database.url);
      await reserve(replica, owner, 700n);
    }
    expect(await books.account(owner.accountId)).toMatchObject({ reserved: 0n });
    const [row] = await books.sql`SELECT count(*) AS n FROM replicas WHERE ended_at IS NULL`;
    expect(row.n).toBe(0n);
  });

  test("of a silent replica is ended by another one: blocks are free, running requests are interrupted", async () => {
    const dead = await openReplica(database.url);
    const owner = await books.open("alice", 10n * costOfEnded, { budget: 5n * costOfEnded });
    const chains = [{ firstKeyId: owner.keyId, reserved: String(costOfEnded) }];
    const { accountId } = owner;
    await dead.reserve({ accountId, reserved: String(4n * costOfEnded), chains });
    await dead.record(running("req_1", owner));
    await dead.record(ended("req_2", owner));
    const deadId = dead.lease.id;
    await dead.abandon();
    await books.sql`UPDATE replicas SET seen_at = seen_at - 16000`;
    await using other = await openReplica(database.url);
    await until("the dead one is ended", () => other.ended.length > 0);
    expect(other.ended).toEqual([
      { replicaId: Number(deadId), interrupted: 1, released: 3n * costOfEnded },
    ]);
    expect(await books.statuses()).toEqual({ req_1: "interrupted", req_2: "done" });
    expect(await books.account(accountId)).toMatchObject({
      reserved: 0n,
      balance: 9n * costOfEnded,
    });
    const [blocks] = await books.sql`SELECT count(*) AS n FROM reserves`;
    expect(blocks.n).toBe(0n);
  });

  test("of a silent replica is not ended while its batch is open, and then with what the batch has reserved", async () => {
    const late = await openReplica(database.url);
    const { accountId } = await books.open("alice", 1000n);
    await silence(late);
    const lateId = late.lease.id;
    await late.abandon();
    await using batch = new SQL(database.url, { max: 1 });
    await using other = await batch.begin(async (own) => {
      await own`UPDATE replicas SET last_batch = 7 WHERE id = ${lateId}`;
      // Its first heartbeat finds the silent replica, and does not wait for it.
      const joined = await openReplica(database.url);
      expect({ ended: joined.ended, told: joined.told }).toEqual({ ended: [], told: [] });
      const session = await Session.open(() => new SQL(database.url, { max: 1, bigint: true }));
      expect(await endReplica(session, Number(lateId), { onlySilent: true })).toBeUndefined();
      session.close();
      await own`UPDATE accounts SET reserved = 700 WHERE id = ${accountId}`;
      await own`INSERT INTO reserves (replica_id, account_id, key_id, amount)
        VALUES (${lateId}, ${accountId}, 0, 700)`;
      return joined;
    });
    await until("it is ended", () => other.ended.length > 0);
    expect(other.ended).toMatchObject([{ released: 700n }]);
    expect(await books.account(accountId)).toMatchObject({ reserved: 0n });
  });

  test("of a silent replica stays until the other one has sent heartbeats for five seconds", async () => {
    const dead = await openReplica(database.url);
    await dead.abandon();
    await silence(dead);
    const began = performance.now();
    await using other = await openReplica(database.url, { steadyMs: 5000 });
    await until("the dead one is ended", () => other.ended.length > 0);
    expect(performance.now() - began).toBeGreaterThan(4900);
  });

  test("of a replica that is silent for less than 15 seconds stays", async () => {
    await using quiet = await openReplica(database.url);
    await books.sql`UPDATE replicas SET seen_at = seen_at - 9000`;
    await using other = await openReplica(database.url);
    await until(
      "a second heartbeat",
      () => other.lease.ageMs < 500 && other.lease.liveReplicas === 2,
    );
    expect({ ended: other.ended, told: quiet.told }).toEqual({ ended: [], told: [] });
  });

  test("is refused once it was ended: nothing is written, and the replica joins again", async () => {
    await using paused = await openReplica(database.url);
    const owner = await books.open("alice", 10n * costOfEnded);
    await reserve(paused, owner, 4n * costOfEnded);
    await paused.record(running("req_1", owner));
    const lost = paused.lease.id;
    await silence(paused);
    await using other = await openReplica(database.url);
    await until("it is ended", () => other.ended.length > 0);
    const failures = await Promise.all(
      [ended("req_1", owner), ended("req_2", owner)].map((record) =>
        paused.record(record).then(
          () => "written",
          ({ failure }) => failure as string,
        ),
      ),
    );
    // It may have found out by its heartbeat, and have a new lease already.
    for (const failure of failures)
      expect(failure).toBeOneOf(["fenced", "unreachable", "insufficient", "refused"]);
    expect(await books.statuses()).toEqual({ req_1: "interrupted" });
    expect(await books.account(owner.accountId)).toMatchObject({
      balance: 10n * costOfEnded,
      reserved: 0n,
    });
    await until("it joins again", () => paused.told.includes("joined"));
    expect(paused.told).toEqual(["lost", "joined"]);
    expect(paused.lease.id).toBeGreaterThan(lost ?? Infinity);
    await reserve(paused, owner, costOfEnded);
    await paused.record(ended("req_3", owner));
    expect(await books.account(owner.accountId)).toMatchObject({ balance: 9n * costOfEnded });
  });

  test("that was ended a moment ago refuses a batch by its number", async () => {
    await using paused = await openReplica(database.url);
    const owner = await books.open("alice", 10n * costOfEnded);
    await reserve(paused, owner, 4n * costOfEnded);
    await books.sql.begin(async (tx) => {
      await tx`UPDATE replicas SET ended_at = 1 WHERE id = ${paused.lease.id}`;
      await tx`UPDATE accounts SET reserved = 0`;
      await tx`DELETE FROM reserves`;
    });
    const failure = await paused.writer
      .write({
        kind: "touchKey",
        accountId: owner.accountId,
        keyId: owner.keyId,
        at: 77,
        address: null,
      })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ failure: "fenced", name: "ReplicaFenced" });
    const [key] = await books.sql`SELECT last_used_at FROM keys`;
    expect(key.last_used_at).toBeNull();
    expect(paused.told).toEqual(["lost"]);
  });

  test("tells a replica of an older version that a newer one has upgraded the schema", async () => {
    await using replica = await openReplica(database.url);
    await books.sql`UPDATE schema_version SET applied = applied + 1, oldest = applied`;
    expect(replica.told).toEqual([]);
    await books.sql`UPDATE schema_version SET applied = applied + 1, oldest = applied + 1`;
    await until("a heartbeat", () => replica.told.length > 0);
    expect(replica.told[0]).toBe("outdated");
  });
});
