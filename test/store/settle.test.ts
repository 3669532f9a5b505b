import { beforeEach, describe, expect, test } from "bun:test";
import type { RequestRecord } from "../../src/store/store.ts";
import {
  actor,
  costOfEnded,
  ended,
  endedPrice,
  fund,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { NANO_ROUBLES_MAX } from "../../src/lib/money.ts";

const storeFolder = openStoreBefore({ audited: true });

let alice: Owner;

function write(record: RequestRecord): Promise<unknown> {
  return storeFolder.writer.write({ kind: "recordRequest", record });
}

/** Writes them in one turn, and so in one group. Resolves with the failure of each, or `undefined`. */
async function writeTogether(...records: readonly RequestRecord[]): Promise<readonly unknown[]> {
  const failureOf = ({ failure }: { failure: unknown }): unknown => failure;
  return Promise.all(records.map((record) => write(record).then(() => undefined, failureOf)));
}

/** What is left of an account's money, and of its reserve. */
async function moneyOf(name: string) {
  const { balance, reserved } = await storeFolder.store.accounts.findOrThrow(name);
  return { balance, reserved };
}

describe("a charge", () => {
  test.each([
    ["from the balance", 50_000n, 0n],
    ["from the overdraft", 0n, 50_000n],
    ["of all that there is", costOfEnded, 0n],
  ])("%s moves balance, reserve, spending and history", async (_, balance, overdraft) => {
    const { store } = storeFolder;
    alice = await fund(store, "alice", balance);
    await store.admin.setAccount(actor, "alice", { overdraft });
    await storeFolder.reserve(alice.accountId, costOfEnded);
    expect(await moneyOf("alice")).toEqual({ balance, reserved: costOfEnded });
    await write(ended("req_1", alice));
    expect(await moneyOf("alice")).toEqual({ balance: balance - costOfEnded, reserved: 0n });
    expect(await store.requests.find("req_1")).toMatchObject({
      charge: costOfEnded,
      status: "done",
    });
    expect((await store.keys.find("key_alice"))?.spent).toBe(costOfEnded);
    const amounts = { amount: -costOfEnded, balanceAfter: balance - costOfEnded };
    const [row] = await store.ledger.history(alice.accountId, 1);
    expect(row).toMatchObject({ kind: "charge", ref: "req:req_1", ...amounts });
  });

  test("with a write-off records both, and takes the charge only", async () => {
    alice = await fund(storeFolder.store, "alice", 10_000n);
    const record = ended("req_1", alice, { charge: 10_000n, writeOff: 295n });
    await storeFolder.record(record);
    expect(await storeFolder.store.requests.find("req_1")).toMatchObject({
      charge: 10_000n,
      writeOff: 295n,
    });
    expect(await moneyOf("alice")).toEqual({ balance: 0n, reserved: 0n });
  });

  test("above the account's reserve is refused, although the account has the money", async () => {
    alice = await fund(storeFolder.store, "alice", 50_000n);
    await storeFolder.reserve(alice.accountId, costOfEnded - 1n);
    expect(await writeTogether(ended("req_1", alice))).toEqual(["insufficient"]);
    expect(await moneyOf("alice")).toEqual({ balance: 50_000n, reserved: costOfEnded - 1n });
    expect(await storeFolder.store.requests.find("req_1")).toBeUndefined();
  });
});

describe("the reserve", () => {
  test("is at most what the account can pay", async () => {
    alice = await fund(storeFolder.store, "alice", 100n);
    await storeFolder.store.admin.setAccount(actor, "alice", { overdraft: 20n });
    await storeFolder.reserve(alice.accountId, 1000n);
    expect(await moneyOf("alice")).toEqual({ balance: 100n, reserved: 120n });
  });

  test("cannot be taken by a debit or by a lower overdraft", async () => {
    const { admin } = storeFolder.store;
    alice = await fund(storeFolder.store, "alice", 100n);
    await admin.setAccount(actor, "alice", { overdraft: 20n });
    await storeFolder.reserve(alice.accountId, 90n);
    const debit = (amount: bigint) =>
      admin.changeBalance(actor, {
        account: "alice",
        kind: "debit",
        amount,
        ref: null,
        note: null,
      });
    expect(debit(31n)).rejects.toThrow();
    await debit(25n);
    expect(admin.setAccount(actor, "alice", { overdraft: 14n })).rejects.toThrow();
    await admin.setAccount(actor, "alice", { overdraft: 15n });
    expect(await moneyOf("alice")).toEqual({ balance: 75n, reserved: 90n });
  });

  test("is 0 after a start", async () => {
    alice = await fund(storeFolder.store, "alice", 100n);
    await storeFolder.reserve(alice.accountId, 90n);
    expect(storeFolder.store.interruptRunning()).toEqual({ count: 0, reserved: 90n });
    expect(await moneyOf("alice")).toEqual({ balance: 100n, reserved: 0n });
  });
});

describe("the charges of a group", () => {
  let bob: Owner;
  beforeEach(async () => {
    alice = await fund(storeFolder.store, "alice", 1_000_000n);
    bob = await fund(storeFolder.store, "bob", 1_000_000n);
    for (const { accountId } of [alice, bob]) await storeFolder.reserve(accountId, 100_000n);
  });

  test("follow each other in the history of their account, and move its balance once", async () => {
    const { store } = storeFolder;
    const more = { completionTokens: 41, charge: costOfEnded + 200n };
    expect(
      await writeTogether(
        ended("req_1", alice),
        ended("req_2", bob),
        ended("req_3", alice, more),
        ended("req_4", alice, unbilled),
      ),
    ).toEqual([undefined, undefined, undefined, undefined]);
    expect(await store.ledger.history(alice.accountId, 9)).toMatchObject([
      { ref: "req:req_3", seq: 3, balanceAfter: 1_000_000n - 2n * costOfEnded - 200n },
      { ref: "req:req_1", seq: 2, balanceAfter: 1_000_000n - costOfEnded },
      { kind: "credit", seq: 1 },
    ]);
    expect(await moneyOf("alice")).toEqual({
      balance: 1_000_000n - 2n * costOfEnded - 200n,
      reserved: 100_000n - 2n * costOfEnded - 200n,
    });
    expect((await moneyOf("bob")).balance).toBe(1_000_000n - costOfEnded);
    expect(await store.keys.list("alice")).toMatchObject([{ spent: 2n * costOfEnded + 200n }]);
  });

  test("are committed without one that is refused", async () => {
    expect(
      await writeTogether(
        ended("req_1", alice),
        ended("req_2", alice, { charge: costOfEnded + 1n }),
        ended("req_3", alice),
        ended("req_1", bob),
      ),
    ).toEqual([undefined, "refused", undefined, "refused"]);
    expect((await moneyOf("alice")).balance).toBe(1_000_000n - 2n * costOfEnded);
    expect((await moneyOf("bob")).balance).toBe(1_000_000n);
    expect(await storeFolder.store.requests.find("req_2")).toBeUndefined();
    expect(await storeFolder.store.usage.by("day", {})).toMatchObject([{ requests: 2 }]);
  });
});

describe("the ledger", () => {
  test.each<[string, Partial<RequestRecord>, number]>([
    ["has a charge of a done request that costs nothing", { ...unbilled, status: "done" }, 1],
    ["has none of one that was cancelled for nothing", { ...unbilled, status: "cancelled" }, 0],
    ["has one of one that was cancelled with a charge", { status: "cancelled" }, 1],
    ["has none of one that failed", unbilled, 0],
  ])("%s", async (_, changes, rows) => {
    const { store } = storeFolder;
    alice = await fund(store, "alice", 1_000_000n);
    await storeFolder.record(ended("req_1", alice, changes));
    const charges = (await store.ledger.history(alice.accountId, 10)).filter(
      ({ kind }) => kind === "charge",
    );
    expect(charges).toHaveLength(rows);
  });

  test("counts beyond 9 million roubles to the nano-rouble", async () => {
    const { store } = storeFolder;
    const large = 2n ** 53n + 1n;
    alice = await fund(store, "alice", large);
    const credit = { account: "alice", kind: "credit", ref: null, note: null } as const;
    await store.admin.changeBalance(actor, { ...credit, amount: large });
    await storeFolder.reserve(alice.accountId, large);
    expect(await moneyOf("alice")).toEqual({ balance: large * 2n, reserved: large });
    await write(ended("req_1", alice));
    expect(await moneyOf("alice")).toEqual({
      balance: large * 2n - costOfEnded,
      reserved: large - costOfEnded,
    });
    expect(
      (await store.ledger.history(alice.accountId, 3)).map(({ balanceAfter }) => balanceAfter),
    ).toEqual([large * 2n - costOfEnded, large * 2n, large]);
  });
});

describe("a day whose sums leave 64 bits", () => {
  const huge = 4_000_000_000_000_000_000n;

  beforeEach(async () => {
    alice = await fund(storeFolder.store, "alice", 1_000_000n);
    await storeFolder.reserve(alice.accountId, 1_000_000n);
  });

  const records = (count: number, model: string) =>
    Array.from({ length: count }, (_, at) =>
      ended(`req_${model}_${at}`, alice, { model, operatorCost: huge }),
    );

  test("is reported exactly, as long as one group of it does not", async () => {
    for (const model of ["a", "b", "c"])
      for (const record of records(2, model)) await write(record);
    expect(await storeFolder.store.usage.by("day", {})).toMatchObject([
      { requests: 6, operatorCost: 6n * huge },
    ]);
  });

  test.each([
    ["one after the other", false],
    ["in one transaction", true],
  ])(
    "fails no request where a group does, and the operator's cost stays at the largest number: %s",
    async (_, isTogether) => {
      if (isTogether) await writeTogether(...records(6, "a"));
      else for (const record of records(6, "a")) await write(record);
      const report = [{ requests: 6, operatorCost: 2n ** 63n - 1n, cost: 6n * costOfEnded }];
      expect(await storeFolder.store.usage.by("day", {})).toMatchObject(report);
      expect((await storeFolder.store.auditHere()).problems).toEqual([]);
    },
  );
});

describe("a request", () => {
  beforeEach(async () => {
    alice = await fund(storeFolder.store, "alice", 1_000_000n);
    await storeFolder.reserve(alice.accountId, 200_000n);
  });

  test.each([
    ["with a row before", true],
    ["without one", false],
  ])("ends once, %s: a second end is refused and charges nothing", async (_, hasRow) => {
    if (hasRow) await write(running("req_1", alice));
    await write(ended("req_1", alice));
    const again = [ended("req_1", alice), ended("req_1", alice, { mayHaveRow: false })];
    expect(await writeTogether(...again)).toEqual(["refused", "refused"]);
    expect((await moneyOf("alice")).balance).toBe(1_000_000n - costOfEnded);
  });

  test("that claims another cost than its tokens have is refused, and its row stays", async () => {
    await write(running("req_1", alice));
    const wrong = ended("req_1", alice, { charge: costOfEnded + 1n });
    expect(await writeTogether(wrong)).toEqual(["refused"]);
    expect(await storeFolder.store.requests.find("req_1")).toMatchObject({
      status: "running",
      charge: 0n,
    });
    expect(await moneyOf("alice")).toEqual({ balance: 1_000_000n, reserved: 200_000n });
    await write(ended("req_1", alice));
  });

  test.each([
    ["whose row was written before", [running("req_1", { accountId: 1, keyId: 1, firstKeyId: 1 })]],
    ["whose row was not written", []],
  ])("%s has one row at its end, with everything that is known then", async (_, before) => {
    for (const record of before) await write(record);
    await write(ended("req_1", alice));
    expect((await storeFolder.store.requests.list({}, { limit: 9 })).rows).toMatchObject([
      {
        id: "req_1",
        status: "done",
        provider: "local",
        charge: costOfEnded,
        promptTokens: 100,
        completionTokens: 40,
        attemptCount: 2,
        durationMs: 357,
        firstByteMs: 40,
      },
    ]);
    expect(await storeFolder.store.usage.by("day", {})).toMatchObject([{ requests: 1 }]);
  });

  test("keeps its attempts in their order", async () => {
    await write(ended("req_1", alice));
    const { attempts } = ended("req_1", alice);
    expect(await storeFolder.store.requests.attempts("req_1")).toEqual([...attempts]);
    expect((await storeFolder.store.requests.find("req_1"))?.attemptCount).toBe(2);
  });

  test("that a crash left running is interrupted, the reserve is 0, and nothing is charged", async () => {
    const { store } = storeFolder;
    await write(running("req_1", alice));
    await write(running("req_2", alice));
    await write(ended("req_2", alice));
    expect(store.interruptRunning()).toEqual({ count: 1, reserved: 200_000n - costOfEnded });
    expect(store.interruptRunning()).toEqual({ count: 0, reserved: 0n });
    expect((await store.requests.find("req_1"))?.status).toBe("interrupted");
    expect(await moneyOf("alice")).toEqual({ balance: 1_000_000n - costOfEnded, reserved: 0n });
    expect((await store.auditHere()).problems).toEqual([]);
  });
});

describe("sums that exceed 64 bits", () => {
  const TOKENS = 1_000_000_000;
  /** An account can have two amounts of the largest size, and not four. */
  const price = { ...endedPrice, output: NANO_ROUBLES_MAX / BigInt(TOKENS) };

  test("the audit adds up charges and refunds of several days", async () => {
    const { store } = storeFolder;
    alice = await fund(store, "alice", NANO_ROUBLES_MAX);
    const credit = { account: "alice", kind: "credit", ref: null, note: null } as const;
    await store.admin.changeBalance(actor, { ...credit, amount: NANO_ROUBLES_MAX });
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
    const largest = { ...tokens, completionTokens: TOKENS, price, charge: NANO_ROUBLES_MAX };
    for (let day = 0; day < 3; day += 1) {
      for (const id of [`req_${day}_1`, `req_${day}_2`]) {
        const at = actor.at + day * DAY_MS;
        await storeFolder.record(ended(id, alice, { ...largest, at, hold: NANO_ROUBLES_MAX }));
        if (day < 2)
          await store.admin.refund(actor, { request: id, amount: null, ref: null, note: null });
      }
    }
    expect((await store.auditHere()).problems).toEqual([]);
    expect(await store.keys.list("alice")).toMatchObject([{ spent: 2n * NANO_ROUBLES_MAX }]);
  });
});
