import { expect, test } from "bun:test";
import { SERVER_PACE } from "../../../src/store/postgres/writer/writer.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { several } from "../../support/several.ts";
import { openReplica, type Replica, openBooksBefore } from "../../support/store/replica.ts";
import {
  costOfEnded,
  ended,
  endedPrice,
  running,
  type Owner,
} from "../../support/store/storeFolder.ts";
import { until } from "../../support/until.ts";

const UNBILLED = {
  charge: 0n,
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
};

describePostgres("the writer of a replica", () => {
  const { database, books } = openBooksBefore();

  const wanting = ({ accountId }: Owner, amount: bigint) => ({
    accountId,
    reserved: String(amount),
  });

  test("settles a group exactly: rows, numbers, balances, spending and totals", async () => {
    await using replica = await openReplica(database.url);
    const owner = await books.open("alice", 10n * costOfEnded);
    await replica.reserve(wanting(owner, 10n * costOfEnded));
    await replica.record(running("req_late", owner));
    const touch = { kind: "touchKey", accountId: owner.accountId, keyId: owner.keyId } as const;
    await replica.writer.write({ ...touch, at: 76, address: "203.0.113.1" });
    await Promise.all([
      replica.record(ended("req_1", owner)),
      replica.record(ended("req_late", owner)),
      replica.record(ended("req_failed", owner, { status: "failed", ...UNBILLED })),
      replica.record(running("req_both", owner)),
      replica.record(ended("req_both", owner)),
      replica.writer.write({ ...touch, at: 77, address: "203.0.113.2" }),
    ]);
    expect(await books.account(owner.accountId)).toEqual({
      balance: 7n * costOfEnded,
      reserved: 7n * costOfEnded,
      ledger_seq: 4n,
    });
    expect(await books.statuses()).toEqual({
      req_1: "done",
      req_late: "done",
      req_failed: "failed",
      req_both: "done",
    });
    const [key] =
      await books.sql`SELECT spent, last_used_at, first_address, last_address FROM keys WHERE id = ${owner.keyId}`;
    expect(key).toEqual({
      spent: 3n * costOfEnded,
      last_used_at: 77n,
      first_address: "203.0.113.1",
      last_address: "203.0.113.2",
    });
    const [attempts] = await books.sql`SELECT count(*) AS n FROM attempts`;
    expect(attempts.n).toBe(8n);
  });

  test("starts one transaction each 25 ms, however many requests end, and charges each once", async () => {
    await using replica = await openReplica(database.url);
    const owner = await books.open("alice", 1000n * costOfEnded);
    await replica.reserve(wanting(owner, 1000n * costOfEnded));
    const before = replica.writer.figures().transactions;
    const began = performance.now();
    const writes: Promise<unknown>[] = [];
    // 2,000 requests a second on a machine that is not busy: then these are 24 transactions.
    for (let at = 0; at < 1000; at += 10) {
      for (const more of several(10, (index) => index))
        writes.push(replica.record(ended(`req_${at + more}`, owner)));
      await Bun.sleep(5);
    }
    await Promise.all(writes);
    // Before many have come, each starts one.
    const inTime = SERVER_PACE.many + (performance.now() - began) / SERVER_PACE.everyMs;
    expect(replica.writer.figures().transactions - before).toBeLessThanOrEqual(inTime);
    expect(await books.account(owner.accountId)).toEqual({
      balance: 0n,
      reserved: 0n,
      ledger_seq: 1001n,
    });
  });

  test("gives a replica at most what the others leave, and tells them that more is wanted", async () => {
    await using one = await openReplica(database.url);
    await using other = await openReplica(database.url);
    const owner = await books.open("alice", 600n, { overdraft: 400n });
    const told: string[] = [];
    await using _listening = await books.sql.listen("tollgate_wanted", (id) => told.push(id));
    const effectOf = async (replica: typeof one, amount: bigint) =>
      (await replica.reserve(wanting(owner, amount)))[0]?.accounts[0];
    expect(await effectOf(one, 700n)).toMatchObject({ reserved: "700", others: "0" });
    expect(told).toEqual([]);
    expect(await effectOf(other, 700n)).toMatchObject({ reserved: "300", others: "700" });
    await until("the others are told", () => told.length > 0);
    expect(told).toEqual([String(owner.accountId)]);
    expect(await books.account(owner.accountId)).toMatchObject({ reserved: 1000n });
    expect(await effectOf(one, 100n)).toMatchObject({ reserved: "100", others: "300" });
    expect(await effectOf(other, 2000n)).toMatchObject({ reserved: "900", others: "100" });
    expect(await effectOf(one, 0n)).toMatchObject({ reserved: "0", others: "900" });
    expect(await books.account(owner.accountId)).toMatchObject({ reserved: 900n });
  });

  test("shares the budget of a rotation chain in the same way", async () => {
    await using one = await openReplica(database.url);
    await using other = await openReplica(database.url);
    const owner = await books.open("alice", 100n * costOfEnded, { budget: 3n * costOfEnded });
    const { firstKeyId } = owner;
    const chainOf = async (replica: typeof one, amount: bigint) => {
      const chains = [{ firstKeyId, reserved: String(amount) }];
      const target = { ...wanting(owner, 10n * costOfEnded), chains };
      return (await replica.reserve(target))[0]?.chains[0];
    };
    expect(await chainOf(one, 2n * costOfEnded)).toEqual({
      accountId: owner.accountId,
      firstKeyId,
      spent: "0",
      budget: String(3n * costOfEnded),
      reserved: String(2n * costOfEnded),
      others: "0",
    });
    expect(await chainOf(other, 2n * costOfEnded)).toMatchObject({
      reserved: String(costOfEnded),
      others: String(2n * costOfEnded),
    });
    // The third one costs more than its replica has of the budget: the account pays, and the budget is exceeded.
    for (const id of ["req_1", "req_2", "req_3"]) await one.record(ended(id, owner));
    expect(one.effects[0]?.chains).toEqual([
      {
        accountId: owner.accountId,
        firstKeyId,
        spent: String(3n * costOfEnded),
        budget: String(3n * costOfEnded),
        reserved: "0",
        others: String(costOfEnded),
      },
    ]);
    expect(await chainOf(one, 1n)).toMatchObject({ reserved: "0" });
    await books.sql`UPDATE keys SET budget = NULL WHERE id = ${firstKeyId}`;
    expect(await chainOf(other, 1n)).toMatchObject({ budget: null, reserved: "0" });
  });

  test("leaves what is reserved of a budget when a command lowers it, and gives no more", async () => {
    await using one = await openReplica(database.url);
    await using other = await openReplica(database.url);
    const owner = await books.open("alice", 1000n, { budget: 500n });
    const { firstKeyId } = owner;
    const reservedBy = async (replica: typeof one, amount: bigint) => {
      const chains = [{ firstKeyId, reserved: String(amount) }];
      const [effect] = await replica.reserve({ ...wanting(owner, amount), chains });
      return effect?.chains[0]?.reserved;
    };
    const setBudget = (budget: number) =>
      books.sql`UPDATE keys SET budget = ${budget} WHERE id = ${firstKeyId}`;
    expect(await reservedBy(one, 400n)).toBe("400");
    await setBudget(100);
    expect(await reservedBy(one, 450n)).toBe("400");
    expect(await reservedBy(one, 300n)).toBe("300");
    expect(await reservedBy(other, 1n)).toBe("0");
    await setBudget(350);
    expect(await reservedBy(other, 300n)).toBe("50");
    expect(await reservedBy(one, 0n)).toBe("0");
  });

  test("lets only the refused operations of a batch fail", async () => {
    await using replica = await openReplica(database.url);
    const owner = await books.open("alice", 10n * costOfEnded);
    await replica.reserve(wanting(owner, 3n * costOfEnded));
    const large = ended("req_large", owner, {
      promptTokens: 100_000,
      charge: costOfEnded + 25n * 99_900n,
    });
    const wrong = ended("req_wrong", owner, { completionTokens: 41 });
    const results = await Promise.allSettled([
      replica.record(ended("req_1", owner)),
      replica.record(large),
      replica.record(wrong),
      replica.record(ended("req_unknown", { ...owner, accountId: 77 })),
      replica.record(ended("req_2", owner)),
      replica.record(ended("req_2", owner)),
      replica.writer.write({
        kind: "touchKey",
        accountId: owner.accountId,
        keyId: owner.keyId,
        at: 77,
        address: null,
      }),
    ]);
    expect(results.map((one) => (one.status === "rejected" ? one.reason.failure : "ok"))).toEqual([
      "ok",
      "insufficient",
      "refused",
      "refused",
      "ok",
      "refused",
      "ok",
    ]);
    expect(await books.account(owner.accountId)).toMatchObject({ balance: 8n * costOfEnded });
  });

  test("keeps amounts beyond doubles to the last nano-rouble", async () => {
    await using replica = await openReplica(database.url);
    const beyond = 9_007_199_254_740_993n;
    const owner = await books.open("alice", 4_000_000_000_000_000_001n);
    const price = { ...endedPrice, input: beyond };
    const one = {
      ...UNBILLED,
      price,
      promptTokens: 3,
      charge: 3n * beyond,
      hold: beyond,
      operatorCost: beyond,
    };
    await replica.reserve(wanting(owner, 4_000_000_000_000_000_001n));
    await replica.record(ended("req_1", owner, one));
    const [row] = await books.sql`SELECT hold, charge, price_input, operator_cost FROM requests`;
    expect(row).toEqual({
      hold: beyond,
      charge: 3n * beyond,
      price_input: beyond,
      operator_cost: beyond,
    });
    expect(replica.effects[0]?.accounts[0]?.balance).toBe(
      String(4_000_000_000_000_000_001n - 3n * beyond),
    );
  });

  test("records owners, with the rules of SQLite", async () => {
    await using replica = await openReplica(database.url);
    const owners = [await books.open("alice", 0n), await books.open("bob", 0n)] as const;
    const hash = new Uint8Array(32).fill(7);
    const record = async (accountId: number, expiresAt: number, at: number) => {
      const object = { hash, accountId, provider: "local", expiresAt, historyTokens: 3 };
      await replica.writer.write({ kind: "recordOwners", objects: [object, object], at });
      const [row] = await books.sql`SELECT account_id, expires_at FROM response_owner`;
      return [Number(row.account_id), Number(row.expires_at)];
    };
    const [{ accountId: alice }, { accountId: bob }] = owners;
    expect(await record(alice, 100, 1)).toEqual([alice, 100]);
    expect(await record(alice, 200, 2)).toEqual([alice, 200]);
    // Of two accounts: neither may use it until it has expired.
    expect(await record(bob, 300, 3)).toEqual([bob, -300]);
    expect(await record(alice, 400, 4)).toEqual([alice, -400]);
    expect(await record(alice, 900, 400)).toEqual([alice, 900]);
  });

  test("redeems a voucher once, before the charges of its batch", async () => {
    await using replica = await openReplica(database.url);
    const owner = await books.open("alice", 0n);
    const other = await books.open("bob", 0n);
    const [{ id }] = await books.sql`
      INSERT INTO vouchers (public_id, hash, prefix, amount, created_at)
      VALUES ('v_1', sha256('v_1'), 'v', ${costOfEnded}, 0) RETURNING id`;
    const redeem = (accountId: number, voucherId = Number(id)) =>
      replica.writer.write({
        kind: "redeemVoucher",
        redemption: { voucherId, accountId, actor: "key_1", at: 5 },
      });
    const results = await Promise.all([
      replica.reserve(wanting(owner, costOfEnded)),
      redeem(owner.accountId),
      redeem(owner.accountId),
      redeem(other.accountId),
      redeem(owner.accountId, 999),
    ]);
    expect(results.slice(1)).toEqual(
      ["applied", "repeated", "refused", "refused"].map((redeemed) => ({ redeemed })) as never,
    );
    await replica.reserve(wanting(owner, costOfEnded));
    await replica.record(ended("req_1", owner));
    expect(await books.account(owner.accountId)).toMatchObject({ balance: 0n, ledger_seq: 2n });
  });

  test("folds old requests, one replica at a time, and no history changes", async () => {
    await using one = await openReplica(database.url);
    await using other = await openReplica(database.url);
    const owner = await books.open("alice", 70n * costOfEnded);
    await one.reserve(wanting(owner, 70n * costOfEnded));
    await Promise.all(
      several(70, (at) => one.record(ended(`req_${at}`, owner, { at: 1000 + at }))),
    );
    const history = () =>
      books.sql`SELECT seq, kind, amount, balance_after, ref, at FROM history ORDER BY seq`;
    const before = await history();
    const fold = async (replica: typeof one) =>
      (await replica.writer.write({ kind: "fold", before: 1060 })).folded ?? 0;
    const folded = await Promise.all([fold(one), fold(other)]);
    expect(Math.max(...folded)).toBe(50);
    while ((await fold(one)) > 0);
    const [left] = await books.sql`SELECT count(*) AS n FROM requests`;
    expect(left.n).toBe(10n);
    expect([...(await history())]).toEqual([...before]);
  });

  test("finds the rows of running requests by an index, also in a table that grew since its last look", async () => {
    const owner = await books.open("alice", 10n * costOfEnded);
    const readRows = async () => {
      const [row] = await books.sql`SELECT sum(idx_tup_read)::bigint AS read
        FROM pg_stat_user_indexes WHERE relname = 'requests'`;
      return Number(row.read);
    };
    const run = async (replica: Replica, publicId: string) => {
      await replica.record(running(publicId, owner));
      await replica.record(ended(publicId, owner));
    };
    const withoutRules = (statement: string) =>
      books.sql.begin(async (tx) => {
        await tx`SET LOCAL session_replication_role = replica`;
        await tx.unsafe(statement);
      });
    let before = 0;
    {
      await using replica = await openReplica(database.url);
      await replica.reserve(wanting(owner, 10n * costOfEnded));
      // The statements are planned for a table that is nearly empty.
      for (const at of several(7, (index) => index)) await run(replica, `req_${at}`);
      const { accountId, keyId } = owner;
      await withoutRules(`INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status,
          price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output, figures_price, hold)
        SELECT 'req_other_' || n, 0, ${accountId}, ${keyId}, 'chat', 'small', 0, 'failed', 0, 0, 0, 0, 0, 0, 0
        FROM generate_series(1, 20000) AS n`);
      before = await readRows();
      await run(replica, "req_late");
    }
    // The server counts what a connection has read when that is closed.
    const connections = async () => {
      const [row] =
        await books.sql`SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()`;
      return row.n;
    };
    // `books` has two.
    while ((await connections()) > 2n);
    expect((await readRows()) - before).toBeLessThan(1000);
    await withoutRules("DELETE FROM requests WHERE status = 'failed'");
  });

  test("settles one hot account from two replicas", async () => {
    await using one = await openReplica(database.url);
    await using other = await openReplica(database.url);
    const owner = await books.open("alice", 600n * costOfEnded);
    for (const replica of [one, other]) await replica.reserve(wanting(owner, 300n * costOfEnded));
    const writes: Promise<unknown>[] = [];
    // As the gateway does: a replica may wait longer for the other one than a batch waits for a lock.
    const write = ({ writer }: Replica, id: string) =>
      writes.push(writer.writeWithin({ kind: "recordRequest", record: ended(id, owner) }));
    for (let round = 0; round < 30; round += 1) {
      for (const at of several(10, (index) => index)) {
        write(one, `req_a_${round}_${at}`);
        write(other, `req_b_${round}_${at}`);
      }
      await Bun.sleep(5);
    }
    await Promise.all(writes);
    expect(await books.account(owner.accountId)).toEqual({
      balance: 0n,
      reserved: 0n,
      ledger_seq: 601n,
    });
  });
});
