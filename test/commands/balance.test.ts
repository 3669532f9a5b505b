import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { takeInstanceLock } from "../../src/store/open.ts";
import { ended, fund, openStoreFolder, type StoreFolder } from "../support/store/storeFolder.ts";

let cli: CliFolder;
beforeEach(async () => {
  cli = await openCliFolder();
  await cli.json("accounts", "create", "alice");
});
afterEach(() => cli.remove());

const credited = {
  account: "alice",
  amount_rub: "100",
  balance_rub: "100",
  ref: null,
  applied: true,
};

describe("balance", () => {
  test("is credited, debited and shown to the nano-rouble", async () => {
    expect(await cli.json("balance", "credit", "alice", "100")).toEqual(credited);
    expect(await cli.json("balance", "credit", "alice", "9007199.254740993")).toMatchObject({
      balance_rub: "9007299.254740993",
    });
    expect(await cli.json("balance", "debit", "alice", "0.000000001", "--ref", "fee")).toEqual({
      account: "alice",
      amount_rub: "0.000000001",
      balance_rub: "9007299.254740992",
      ref: "fee",
      applied: true,
    });
    expect(await cli.json("balance", "show", "alice")).toEqual({
      account: "alice",
      balance_rub: "9007299.254740992",
      held_rub: "0",
      overdraft_rub: "0",
      available_rub: "9007299.254740992",
    });
  }, 60_000);

  test("changes once for one ref, also with repeated and concurrent commands", async () => {
    const credit = ["balance", "credit", "alice", "100", "--ref", "pay-1"];
    const answers = await Promise.all(Array.from({ length: 8 }, () => cli.json(...credit)));
    const applied = { ...credited, ref: "pay-1" };
    expect(answers.filter((answer) => Bun.deepEquals(answer, applied))).toHaveLength(1);
    expect(
      answers.filter((answer) => Bun.deepEquals(answer, { ...applied, applied: false })),
    ).toHaveLength(7);
    const again = await cli.run(...credit);
    expect(again).toMatchObject({ status: 0, stderr: "" });
    expect(again.stdout).toContain("nothing changed; balance of alice: 100 roubles");
    const other = await cli.run("balance", "credit", "alice", "101", "--ref", "pay-1");
    expect(other).toMatchObject({ status: 1, stdout: "" });
    expect(other.stderr).toContain("use a new ref");
  }, 60_000);

  test("has a history, newest first, with the charge of each request", async () => {
    await cli.json("balance", "credit", "alice", "100", "--ref", "pay-1", "--note", "Счёт 7");
    await chargeOne();
    await cli.json("balance", "debit", "alice", "1.5");
    const time = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]{12}Z$/);
    const rows = [
      {
        kind: "debit",
        amount_rub: "-1.5",
        balance_rub: "98.499989705",
        ref: null,
        note: null,
        request_id: null,
      },
      {
        kind: "charge",
        amount_rub: "-0.000010295",
        balance_rub: "99.999989705",
        ref: "req:req_1",
        note: null,
        request_id: "req_1",
      },
      {
        kind: "credit",
        amount_rub: "100",
        balance_rub: "100",
        ref: "pay-1",
        note: "Счёт 7",
        request_id: null,
      },
    ].map((row) => Object.assign(row, { id: expect.any(Number), at: time }));
    expect(await cli.json("balance", "history", "alice")).toEqual(rows);
    expect(await cli.json("balance", "history", "alice", "--limit", "1")).toEqual(rows.slice(0, 1));
    const { stdout } = await cli.run("balance", "history", "alice");
    expect(stdout.split("\n").map((line) => line.slice("2026-01-01T00:00:00Z  ".length))).toEqual([
      "kind      amount, RUB   balance, RUB  ref        note",
      "debit    -1.5           98.499989705  -",
      "charge   -0.000010295   99.999989705  req:req_1",
      "credit  100            100            pay-1      Счёт 7",
    ]);
  }, 60_000);

  /** Charges a request, as a gateway does. */
  async function chargeOne(): Promise<void> {
    const storeFolder = await openStoreFolder(cli.database);
    const owner = await fund(storeFolder.store, "alice", 0n);
    await storeFolder.record(ended("req_1", owner));
    await storeFolder.close();
  }

  test("gets a refund of all or part of a charge, once for one ref", async () => {
    await cli.json("balance", "credit", "alice", "100");
    await chargeOne();
    const part = ["balance", "refund", "req_1", "--amount", "0.000000295", "--ref", "sorry"];
    const refunded = {
      request: "req_1",
      account: "alice",
      amount_rub: "0.000000295",
      balance_rub: "99.99999",
      ref: "sorry",
      applied: true,
    };
    expect(await cli.json(...part)).toEqual(refunded);
    expect(await cli.json(...part)).toEqual({ ...refunded, applied: false });
    const rest = await cli.run("balance", "refund", "req_1", "--note", "all of it");
    expect(rest.stdout).toBe("refunded 0.00001 roubles of req_1, balance of alice: 100 roubles");
    const [all, first] = (await cli.json("balance", "history", "alice")) as object[];
    expect([all, first]).toMatchObject([
      { kind: "refund", amount_rub: "0.00001", ref: null, note: "all of it", request_id: "req_1" },
      { kind: "refund", amount_rub: "0.000000295", ref: "sorry", request_id: "req_1" },
    ]);
    const { stdout } = await cli.run("balance", "history", "alice", "--limit", "2");
    expect(stdout).toContain("of req_1        all of it");
    expect(stdout).toContain("sorry of req_1");
    expect(await cli.json("requests", "show", "req_1")).toMatchObject({
      cost_rub: "0.000010295",
      refunded_rub: "0.000010295",
    });
    const [key] = (await cli.json("keys", "list")) as object[];
    expect(key).toMatchObject({ spent_rub: "0" });
    // The reports of spent amounts differ by the refund.
    expect(await cli.json("usage", "--by", "key")).toMatchObject([
      { cost_rub: "0.000010295", refunded_rub: "0.000010295" },
    ]);
    const again = await cli.run("balance", "refund", "req_1");
    expect(again).toEqual({
      status: 1,
      stdout: "",
      stderr: 'error: all of the charge of request "req_1" was refunded before',
    });
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  }, 60_000);

  test.each([
    [["credit", "nobody", "5"], 'there is no account "nobody": tollgate accounts list shows them'],
    [["show", "nobody"], 'there is no account "nobody"'],
    [["history", "nobody"], 'there is no account "nobody"'],
    [["refund", "req_x"], 'there is no charge of request "req_x"'],
    [
      ["debit", "alice", "0.000000001"],
      'account "alice" has 0 roubles available, less than 0.000000001',
    ],
  ])("fails with one line that names the reason: %j", async (args, message) => {
    const { status, stdout, stderr } = await cli.run("balance", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toStartWith(`error: ${message}`);
    expect(stderr).not.toContain("\n");
  });

  describe("that is reserved for open requests", () => {
    const waiting = "waiting up to 2 s for money that the gateway has reserved for open requests";
    /** Of 100 roubles and an overdraft of 5. */
    const changes = [
      {
        reserved: 70_000_000_000n,
        args: ["balance", "debit", "alice", "40"],
        refusal: 'account "alice" has 35 roubles available, less than 40',
      },
      {
        reserved: 105_000_000_000n,
        args: ["accounts", "set", "alice", "--overdraft", "0"],
        refusal: 'the overdraft of "alice" cannot be 0: more than that is spent or held',
      },
    ];
    let storeFolder: StoreFolder;
    let accountId: number;
    beforeEach(async () => {
      await cli.json("balance", "credit", "alice", "100");
      await cli.json("accounts", "set", "alice", "--overdraft", "5");
      storeFolder = await openStoreFolder(cli.database);
      ({ accountId } = await fund(storeFolder.store, "alice", 0n));
    });
    afterEach(() => storeFolder.close());

    const reservedNow = async () => (await storeFolder.store.accounts.find("alice"))?.reserved;

    /** Runs `work` while a gateway seems to run. */
    async function whileServing<T>(work: () => Promise<T>): Promise<T> {
      const lock = takeInstanceLock(cli.database);
      try {
        return await work();
      } finally {
        lock?.release();
      }
    }

    test.each(changes)("is released if no gateway runs: $args", async ({ reserved, args }) => {
      await storeFolder.reserve(accountId, reserved);
      expect(await cli.run(...args)).toMatchObject({ status: 0, stderr: "" });
      expect(await reservedNow()).toBe(0n);
    });

    test.each(changes)(
      "is waited for, in vain: $args",
      async ({ reserved, args, refusal }) => {
        await storeFolder.reserve(accountId, reserved);
        const { status, stdout, stderr } = await whileServing(() => cli.run(...args));
        expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
        const [notice, error, ...more] = stderr.split("\n");
        expect([notice, ...more]).toEqual([waiting]);
        expect(error).toStartWith(`error: ${refusal}`);
        expect(error).toContain("the gateway has reserved");
        expect(await reservedNow()).toBe(reserved);
      },
      20_000,
    );

    test.each(changes)(
      "is waited for until the gateway lowers its reserve: $args",
      async ({ reserved, args }) => {
        await storeFolder.reserve(accountId, reserved);
        await whileServing(async () => {
          const change = cli.run(...args);
          await Bun.sleep(700);
          await storeFolder.reserve(accountId, 1n);
          expect(await change).toMatchObject({ status: 0, stderr: waiting });
        });
        expect(await reservedNow()).toBe(1n);
      },
      20_000,
    );

    test("is not waited for if the account does not have it", async () => {
      await storeFolder.reserve(accountId, 70_000_000_000n);
      const args = ["balance", "debit", "alice", "105.000000001"];
      expect(await whileServing(() => cli.run(...args))).toEqual({
        status: 1,
        stdout: "",
        stderr: 'error: account "alice" has 35 roubles available, less than 105.000000001',
      });
    });
  });

  test("with no history prints how to add money", async () => {
    const { stdout } = await cli.run("balance", "history", "alice");
    expect(stdout).toBe("no ledger entries for alice yet: tollgate balance credit alice 100");
  });

  test("stays within 64 bits", async () => {
    for (const _ of [1, 2]) await cli.json("balance", "credit", "alice", "4000000000");
    const { status, stderr } = await cli.run("balance", "credit", "alice", "4000000000");
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr:
        "error: the balance would be larger than 64 bits can hold: choose an amount of at most 1223372036.854775807 roubles",
    });
  }, 60_000);
});
