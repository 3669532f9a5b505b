import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { withReservedMoney } from "../../../src/administration/reservedMoney.ts";
import { hashKey } from "../../../src/auth/apiKey.ts";
import { openServer, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { MoneyReservedError, StoreError } from "../../../src/store/store.ts";
import { seededRandom } from "../../support/seededRandom.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { several } from "../../support/several.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { Books, openReplica, type Replica } from "../../support/store/replica.ts";
import { actor, costOfEnded, ended, type Owner } from "../../support/store/storeFolder.ts";
import { issueVouchers } from "../../support/store/vouchers.ts";

type Admin = PostgresStore["admin"];

const FUNDS = 100n * costOfEnded;
const OVERDRAFT = 10n * costOfEnded;

describePostgres("commands of two processes", () => {
  let database: TestDatabase;
  let books: Books;
  let stores: readonly [PostgresStore, PostgresStore];
  let alice: Owner;
  beforeEach(async () => {
    database = await replicaDatabase();
    books = new Books(database.url);
    const address = { url: database.url, shownUrl: "postgres://tollgate@server/tollgate" };
    stores = [(await openServer(address)).store, (await openServer(address)).store];
    alice = await books.open("alice", FUNDS + costOfEnded, { overdraft: OVERDRAFT });
  });
  afterEach(async () => {
    const problems = await books.problems();
    const report = await stores[0].audit();
    for (const store of stores) await store.close();
    await books[Symbol.asyncDispose]();
    await database.drop();
    expect([...problems, ...report.problems]).toEqual([]);
  });

  function book(admin: Admin, kind: "credit" | "debit", amount: bigint, ref: string | null = null) {
    return admin.changeBalance(actor, { account: "alice", kind, amount, ref, note: null });
  }

  function refund(admin: Admin, request: string, ref: string | null = null) {
    return admin.refund(actor, { request, amount: null, ref, note: null });
  }

  function successor(name: string) {
    return { publicId: name, hash: hashKey(name), prefix: "sk-tg-000000" };
  }

  /** Leaves FUNDS. */
  async function chargeOne(): Promise<void> {
    await using replica = await openReplica(database.url);
    await replica.reserve({ accountId: alice.accountId, reserved: String(costOfEnded) });
    await replica.record(ended("req_1", alice));
  }

  /** What eight calls at once come to, half of them in each process. */
  async function eightTimes<Result>(
    call: (admin: Admin, index: number) => Promise<Result>,
  ): Promise<readonly PromiseSettledResult<Result>[]> {
    return await Promise.allSettled(
      several(8, (index) => call(stores[index % 2 === 0 ? 0 : 1].admin, index)),
    );
  }

  describe("at once do once what can be done once:", () => {
    test.each<[string, (admin: Admin, index: number) => Promise<unknown>, string]>([
      ["create an account", (admin) => admin.createAccount(actor, "carol", 7n), "exists already"],
      [
        "rotate a key",
        (admin, index) =>
          admin.rotateKey(actor, "key_1", { successor: successor(`key_n${index}`), graceMs: 0 }),
        "was rotated before",
      ],
      ["debit all money", (admin) => book(admin, "debit", FUNDS), "less than"],
      ["refund a charge", (admin) => refund(admin, "req_1"), "all of the charge"],
    ])("%s", async (_, call, refusal) => {
      await chargeOne();
      const results = await eightTimes(call);
      const refused = results.filter((result) => result.status === "rejected");
      expect(refused).toHaveLength(7);
      for (const { reason } of refused) {
        expect(reason).toBeInstanceOf(StoreError);
        expect(reason).not.toBeInstanceOf(MoneyReservedError);
        expect(reason.message).toContain(refusal);
      }
    });
  });

  describe("at once find what another one has done before:", () => {
    test.each<[string, (admin: Admin, voucher: string) => Promise<{ applied: boolean }>]>([
      ["a credit with the same ref", (admin) => book(admin, "credit", 5n, "pay")],
      ["a debit with the same ref", (admin) => book(admin, "debit", FUNDS / 2n + 1n, "take")],
      ["a refund with the same ref", (admin) => refund(admin, "req_1", "sorry")],
      ["a revoked key", (admin) => admin.revokeKey(actor, "key_1")],
      ["a revoked voucher", (admin, voucher) => admin.revokeVoucher(actor, voucher)],
      [
        "an account that is created with a key",
        async (admin) => {
          const id = `key_${crypto.randomUUID()}`;
          const key = { ...successor(id), createdAt: actor.at };
          const { createdAccount } = await admin.createKey(actor, "carol", key);
          return { applied: createdAccount };
        },
      ],
    ])("%s", async (_, call) => {
      await chargeOne();
      const [voucher] = await issueVouchers(stores[0], 1);
      const results = await eightTimes((admin) => call(admin, voucher?.publicId ?? ""));
      const applied = results.map(
        (result) => result.status === "fulfilled" && result.value.applied,
      );
      expect(applied.filter((isApplied) => isApplied)).toHaveLength(1);
      expect(results.filter((result) => result.status === "rejected")).toEqual([]);
    });
  });

  /** Resolves once so many transactions wait for a lock. The heartbeat of a replica waits for its own batch. */
  async function waiting(count: number): Promise<void> {
    const find = async () =>
      await books.sql`
      SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
        AND query NOT LIKE '%seen_at%'`;
    while ((await find()).length < count);
  }

  describe("wait for the transaction of a replica, and go by what it has committed:", () => {
    // As the gateway does: on a busy machine the transaction of the test may last longer than a batch waits for a lock.
    const charge = ({ writer }: Replica) =>
      writer.writeWithin({ kind: "recordRequest", record: ended("req_open", alice) });
    const reserveAll = async (replica: Replica) => {
      const reserved = String(FUNDS + OVERDRAFT);
      await Promise.all([
        replica.reserve({ accountId: alice.accountId, reserved }),
        charge(replica),
      ]);
    };
    const fold = ({ writer }: Replica) =>
      writer.writeWithin({ kind: "fold", before: actor.at + 1 });
    const redeem = async (replica: Replica, voucherId: number) => {
      const redemption = { voucherId, accountId: alice.accountId, actor: "key_1", at: 5 };
      await Promise.all([
        replica.writer.writeWithin({ kind: "redeemVoucher", redemption }),
        charge(replica),
      ]);
    };

    test.each<
      [
        string,
        (replica: Replica, voucherId: number) => Promise<unknown>,
        (admin: Admin, voucher: string) => Promise<unknown>,
        string | object,
      ]
    >([
      ["a debit, by a reserve", reserveAll, (admin) => book(admin, "debit", 1n), "has reserved"],
      [
        "a lower overdraft, by a reserve",
        reserveAll,
        (admin) => admin.setAccount(actor, "alice", { overdraft: OVERDRAFT - 1n }),
        "has reserved",
      ],
      [
        "a debit of too much, by a charge",
        charge,
        (admin) => book(admin, "debit", FUNDS + OVERDRAFT),
        "less than",
      ],
      [
        "a debit of the rest, by a charge",
        charge,
        (admin) => book(admin, "debit", FUNDS - costOfEnded),
        { applied: true, account: { balance: 0n } },
      ],
      [
        "a credit, by a charge",
        charge,
        (admin) => book(admin, "credit", 25n),
        { applied: true, account: { balance: FUNDS - costOfEnded + 25n } },
      ],
      [
        "a refund, by a charge",
        charge,
        (admin) => refund(admin, "req_1"),
        { applied: true, account: { balance: FUNDS } },
      ],
      ["a refund, by a fold", fold, (admin) => refund(admin, "req_1"), "keep_requests keeps"],
      [
        "a revocation, by a redemption",
        redeem,
        (admin, voucher) => admin.revokeVoucher(actor, voucher),
        'was redeemed by account "alice"',
      ],
    ])("%s", async (_, write, call, expected) => {
      await chargeOne();
      const [{ admin }] = stores;
      const [voucher] = await issueVouchers(stores[0], 1);
      const { id = 0, publicId = "" } = voucher ?? {};
      await using replica = await openReplica(database.url);
      await replica.reserve({ accountId: alice.accountId, reserved: String(costOfEnded) });
      const outcome = Promise.withResolvers<unknown>();
      let written: Promise<unknown> | undefined;
      await books.sql.begin(async (open) => {
        // What a transaction of a replica changes last.
        await open`SELECT 1 FROM daily_totals, retention FOR UPDATE`;
        // What comes while it runs is one batch.
        const touch = {
          kind: "touchKey",
          accountId: alice.accountId,
          keyId: alice.keyId,
          at: 1,
          address: null,
        } as const;
        written = Promise.all([replica.writer.writeWithin(touch), write(replica, id)]);
        await waiting(1);
        call(admin, publicId).then(outcome.resolve, outcome.resolve);
        await waiting(2);
      });
      await written;
      const found = await outcome.promise;
      if (typeof expected === "object") return expect(found).toMatchObject(expected);
      expect(found).toBeInstanceOf(StoreError);
      expect((found as Error).message).toContain(expected);
    });
  });

  test("change the first key of a rotation chain before a later one, as replicas do", async () => {
    const [{ admin }] = stores;
    const { key } = await admin.rotateKey(actor, "key_1", {
      successor: successor("key_next"),
      graceMs: 0,
    });
    let changed: Promise<unknown> | undefined;
    await books.sql.begin(async (open) => {
      // Less than the time after which PostgreSQL looks for transactions that wait for each other.
      await open`SET LOCAL lock_timeout = '500ms'`;
      await open`SELECT 1 FROM keys WHERE id = ${alice.keyId} FOR NO KEY UPDATE`;
      changed = admin.changeKey(actor, "key_next", { label: "laptop", budget: 5n });
      await waiting(1);
      await open`SELECT 1 FROM keys WHERE id = ${key.id} FOR NO KEY UPDATE`;
    });
    expect(await changed).toMatchObject({ label: "laptop", budget: 5n });
  });

  test("break no rule while two replicas charge the account, and wait for none that waits for them", async () => {
    const { below, pick } = seededRandom(21);
    const [{ admin }] = stores;
    const rotation = { successor: successor("key_next"), graceMs: 0 };
    const { key } = await admin.rotateKey(actor, "key_1", rotation);
    const { accountId, firstKeyId } = alice;
    const costs = (limit: number): bigint => BigInt(below(limit)) * costOfEnded;
    const charged = ["req_none"];
    const unexpected: string[] = [];
    const over = new AbortController();

    /**
     * Three requests by both keys, and a voucher that a command revokes at the same time. As the gateway does, they wait for
     * an account that others have locked for a moment.
     */
    const serve = async (replica: Replica): Promise<void> => {
      const chains = [{ firstKeyId, reserved: String(costOfEnded) }];
      const [{ id, publicId } = { id: 0, publicId: "" }] = await issueVouchers(stores[0], 1);
      const redemption = { voucherId: id, accountId, actor: "key_1", at: actor.at };
      await Promise.all([
        replica.reserve({ accountId, reserved: String(costs(5)), chains }),
        replica.writer.write({
          kind: "touchKey",
          accountId: key.accountId,
          keyId: key.id,
          at: 1,
          address: null,
        }),
      ]);
      const record = async (): Promise<void> => {
        const requestId = `req_${crypto.randomUUID()}`;
        const request = ended(requestId, { ...alice, keyId: pick([firstKeyId, key.id]) });
        await replica.writer.writeWithin({ kind: "recordRequest", record: request });
        charged.push(requestId);
      };
      const results = await Promise.allSettled([
        ...several(3, record),
        replica.writer.writeWithin({ kind: "redeemVoucher", redemption }),
        admin.revokeVoucher(actor, publicId),
      ]);
      const reasons = results.flatMap((one) =>
        one.status === "rejected" ? String(one.reason) : [],
      );
      unexpected.push(...reasons.filter((reason) => !/has not reserved|was redeemed/.test(reason)));
    };
    const commands: readonly ((admin: Admin) => Promise<unknown>)[] = [
      (admin) => book(admin, "credit", costs(20) + 1n),
      (admin) => book(admin, "debit", costs(40) + 1n),
      (admin) => refund(admin, pick(charged)),
      (admin) => admin.setAccount(actor, "alice", { overdraft: costs(20) }),
      (admin) => admin.changeKey(actor, "key_next", { label: "x", budget: costs(90) }),
      (admin) => admin.setDisabled(actor, "alice", false),
    ];
    const command = async ({ admin }: PostgresStore): Promise<number> => {
      const run = async (): Promise<boolean> => {
        try {
          await pick(commands)(admin);
          return true;
        } catch (error) {
          if (!(error instanceof StoreError)) unexpected.push(String(error));
          return false;
        }
      };
      let done = 0;
      for (let count = 0; count < 100; count += 1) if (await run()) done += 1;
      return done;
    };

    const replicas = [await openReplica(database.url), await openReplica(database.url)];
    const serving = Promise.all(
      replicas.map(async (replica) => {
        while (!over.signal.aborted) await serve(replica);
      }),
    );
    const done = await Promise.all(stores.map(command));
    over.abort();
    await serving;
    for (const replica of replicas) await replica[Symbol.asyncDispose]();
    expect(unexpected).toEqual([]);
    expect(replicas.map(({ writer }) => writer.figures().conflicts)).toEqual([0, 0]);
    expect(Math.min(...done)).toBeGreaterThan(30);
    expect(charged.length).toBeGreaterThan(30);
  });

  describe("that need money which a replica has reserved", () => {
    test("tell the replica, and wait until it has given back what it does not hold", async () => {
      const [{ admin }] = stores;
      await using replica = await openReplica(database.url);
      const { accountId } = alice;
      await replica.reserve({ accountId, reserved: String(FUNDS) });
      await using _listening = await books.sql.listen("tollgate_wanted", (id) => {
        void replica.reserve({ accountId: Number(id), reserved: "5" });
      });
      const waits: number[] = [];
      const debit = () => book(admin, "debit", FUNDS);
      const changed = await withReservedMoney(admin, "alice", debit, (ms) => waits.push(ms));
      expect(changed).toMatchObject({ applied: true, account: { reserved: 5n } });
      expect(waits).toEqual([2000]);
    });

    test("are refused by what it holds, and release nothing themselves", async () => {
      const [{ admin, accounts }] = stores;
      await using replica = await openReplica(database.url);
      await replica.reserve({ accountId: alice.accountId, reserved: String(FUNDS) });
      const debit = () => book(admin, "debit", FUNDS + OVERDRAFT);
      expect(debit()).rejects.toBeInstanceOf(MoneyReservedError);
      expect(await admin.releaseReserve("alice")).toBe(false);
      expect(debit()).rejects.toBeInstanceOf(MoneyReservedError);
      expect(await accounts.find("alice")).toMatchObject({ reserved: FUNDS });
    });
  });
});
