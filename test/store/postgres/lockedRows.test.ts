import { SQL, type TransactionSQL } from "bun";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { several } from "../../support/several.ts";
import { openReplica, type Replica, openBooksBefore } from "../../support/store/replica.ts";
import { costOfEnded, ended, type Owner } from "../../support/store/storeFolder.ts";
import { until } from "../../support/until.ts";

type Lock = (transaction: TransactionSQL, owner: Owner) => Promise<unknown>;

const rowLocks: Readonly<Record<string, Lock>> = {
  account: (tx, { accountId }) => tx`SELECT 1 FROM accounts WHERE id = ${accountId} FOR UPDATE`,
  key: (tx, { keyId }) => tx`SELECT 1 FROM keys WHERE id = ${keyId} FOR UPDATE`,
  reserve: (tx, { accountId }) =>
    tx`SELECT 1 FROM reserves WHERE account_id = ${accountId} FOR UPDATE`,
  totals: (tx, { accountId }) =>
    tx`SELECT 1 FROM daily_totals WHERE account_id = ${accountId} FOR UPDATE`,
};

describePostgres("a writer beside another transaction", () => {
  const { database, books } = openBooksBefore();
  let other: SQL;
  beforeEach(async () => {
    other = new SQL(database.url, { max: 1 });
  });
  afterEach(async () => {
    await other.close();
  });

  /** Runs `work` while a transaction has what `lock` locks. */
  const whileLocked = async (lock: (tx: TransactionSQL) => unknown, work: () => Promise<void>) =>
    await other.begin(async (tx) => {
      await lock(tx);
      await work();
    });

  const write = ({ writer }: Replica, ...record: Parameters<typeof ended>) =>
    writer.writeWithin({ kind: "recordRequest", record: ended(...record) });

  const funded = async (replica: Replica) => {
    const owners = [
      await books.open("x", 10n * costOfEnded),
      await books.open("y", 10n * costOfEnded),
    ] as const;
    const reserved = String(5n * costOfEnded);
    await replica.reserve(...owners.map(({ accountId }) => ({ accountId, reserved })));
    // Both have totals of the day.
    await Promise.all(owners.map((owner, at) => write(replica, `req_first_${at}`, owner)));
    return { x: owners[0], y: owners[1] };
  };

  test.each(Object.entries(rowLocks))(
    "that has the %s of one account settles the other one, and the first one later",
    async (_, lock) => {
      await using replica = await openReplica(database.url);
      const { x, y } = await funded(replica);
      let late: readonly Promise<unknown>[] = [];
      await whileLocked(
        (tx) => lock(tx, x),
        async () => {
          late = ["req_x_1", "req_x_2"].map((id) => write(replica, id, x));
          // One of them is refused: the others are settled one by one.
          const doubled = ["req_y_1", "req_y_2", "req_y_2"].map((id) => write(replica, id, y));
          const results = await Promise.allSettled(doubled);
          expect(results.map(({ status }) => status).toSorted()).toEqual([
            "fulfilled",
            "fulfilled",
            "rejected",
          ]);
          expect(replica.writer.figures().lockedAccounts).toBe(1);
          expect(replica.writer.blockedBy).toBeUndefined();
          await write(replica, "req_y_3", y);
          expect(await books.account(x.accountId)).toMatchObject({ balance: 9n * costOfEnded });
        },
      );
      await Promise.all(late);
      expect(replica.writer.figures().lockedAccounts).toBe(0);
      expect(await books.account(x.accountId)).toMatchObject({ balance: 7n * costOfEnded });
      expect(await books.account(y.accountId)).toMatchObject({ balance: 6n * costOfEnded });
    },
  );

  test("that has a whole table goes on when it is free, and tells nobody of a short wait", async () => {
    await using replica = await openReplica(database.url);
    const { x, y } = await funded(replica);
    let late: readonly Promise<unknown>[] = [];
    await whileLocked(
      (tx) => tx`LOCK TABLE daily_totals IN ACCESS EXCLUSIVE MODE`,
      async () => {
        late = [x, y].map((owner, at) => write(replica, `req_${at}`, owner));
        const before = replica.writer.figures().transactions;
        await until("it has tried again", () => replica.writer.figures().transactions > before + 4);
        expect(replica.writer.figures().lockedAccounts).toBe(0);
        expect(replica.writer.blockedBy).toBeUndefined();
      },
    );
    await Promise.all(late);
    expect(replica.writer.blockedBy).toBeUndefined();
  });

  test("that has had an account once does not let it starve beside busy replicas", async () => {
    await using one = await openReplica(database.url);
    await using two = await openReplica(database.url);
    await using late = await openReplica(database.url);
    const { accountId, ...owner } = await books.open("x", 100_000n * costOfEnded);
    const x = { accountId, ...owner };
    for (const replica of [one, two, late])
      await replica.reserve({ accountId, reserved: String(20_000n * costOfEnded) });
    await whileLocked(
      (tx) => rowLocks["account"]?.(tx, x),
      async () => {
        await late.reserve({ accountId, reserved: String(20_001n * costOfEnded) });
      },
    );
    expect(late.writer.figures().lockedAccounts).toBe(1);
    // A commit takes as long as with a synchronous standby.
    await books.sql.unsafe(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(0.015); RETURN NULL; END $$`);
    await books.sql.unsafe(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OF last_batch ON replicas
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`);
    const load = { isOver: false };
    const keepBusy = async (name: string, replica: Replica) => {
      for (let at = 0; !load.isOver; at += 1) await write(replica, `req_${name}_${at}`, x);
    };
    const clients = several(8, (client) => [
      keepBusy(`one_${client}`, one),
      keepBusy(`two_${client}`, two),
    ]).flat();
    const began = performance.now();
    for (const at of several(5, (index) => index)) await write(late, `req_late_${at}`, x);
    expect(performance.now() - began).toBeLessThan(8000);
    load.isOver = true;
    await Promise.all(clients);
  });

  test("that has an account while the gateway stops does not keep it for longer than ten seconds", async () => {
    await using replica = await openReplica(database.url);
    const { x } = await funded(replica);
    await whileLocked(
      (tx) => rowLocks["account"]?.(tx, x),
      async () => {
        const failed = write(replica, "req_late", x).catch((error: unknown) => error);
        replica.writer.stopping();
        expect(await failed).toMatchObject({ failure: "locked" });
      },
    );
  });

  test("leaves no charge out and makes none twice while locks come and go", async () => {
    await using one = await openReplica(database.url);
    await using two = await openReplica(database.url);
    const { x, y } = await funded(one);
    const reserved = String(5n * costOfEnded);
    for (const { accountId } of [x, y]) await two.reserve({ accountId, reserved });
    const writes: Promise<unknown>[] = [];
    for (const round of several(4, (index) => index)) {
      const lock = Object.values(rowLocks)[round];
      await whileLocked(
        (tx) => lock?.(tx, x),
        async () => {
          for (const [name, replica] of Object.entries({ one, two }))
            for (const [account, owner] of Object.entries({ x, y }))
              writes.push(write(replica, `req_${name}_${account}_${round}`, owner));
          await Bun.sleep(400);
        },
      );
    }
    await Promise.all(writes);
    for (const { accountId } of [x, y])
      expect(await books.account(accountId)).toMatchObject({
        balance: costOfEnded,
        ledger_seq: 10n,
      });
  });
});
