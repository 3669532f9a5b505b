import { beforeEach, describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import type { RequestSettlement, OpenedRequest } from "../../src/store/store.ts";
import { actor, costOfEnded, ended, fund, opened, unbilled } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { NANO_ROUBLES_MAX } from "../../src/lib/money.ts";

const storeFolder = openStoreBefore({ audited: true });

/** `others`: what is held by another open request of the account. */
interface Case {
  readonly balance: bigint;
  readonly overdraft?: bigint;
  readonly hold: bigint;
  readonly others?: bigint;
  readonly charge: bigint;
  readonly writeOff: bigint;
}

describe("what a request costs is charged", () => {
  test.each<[string, Case]>([
    ["exactly", { balance: 50_000n, hold: 20_000n, charge: costOfEnded, writeOff: 0n }],
    [
      "from the overdraft too",
      { balance: 0n, overdraft: 50_000n, hold: 20_000n, charge: costOfEnded, writeOff: 0n },
    ],
    [
      "beyond the hold, from free money",
      { balance: 50_000n, hold: 10n, charge: costOfEnded, writeOff: 0n },
    ],
    [
      "up to the balance, the rest written off",
      { balance: 10_000n, hold: 10_000n, charge: 10_000n, writeOff: 295n },
    ],
    [
      "up to the overdraft, the rest written off",
      { balance: 9_000n, overdraft: 1_000n, hold: 9_000n, charge: 10_000n, writeOff: 295n },
    ],
    [
      "never with money held for another request",
      { balance: 12_000n, others: 5_000n, hold: 1_000n, charge: 7_000n, writeOff: 3_295n },
    ],
    [
      "at least up to its own hold",
      { balance: 12_000n, others: 10_000n, hold: 2_000n, charge: 2_000n, writeOff: 8_295n },
    ],
  ])("%s", async (_, { balance, overdraft = 0n, hold, others, charge, writeOff }) => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", balance);
    store.admin.setOverdraft(actor, "alice", overdraft);
    if (others !== undefined) {
      await writer.write({
        kind: "openRequest",
        request: opened("req_other", owner, { hold: others }),
      });
    }
    await writer.write({ kind: "openRequest", request: opened("req_1", owner, { hold }) });
    expect(store.accounts.find("alice")?.held).toBe(hold + (others ?? 0n));

    expect(await writer.write({ kind: "settleRequest", settlement: ended("req_1") })).toEqual({
      charge,
      writeOff,
    });

    expect(store.accounts.find("alice")).toMatchObject({
      balance: balance - charge,
      held: others ?? 0n,
    });
    expect(store.requests.find("req_1")).toMatchObject({ charge, writeOff, status: "done" });
    expect(store.keys.funds(owner.keyId)?.spent).toBe(charge);
    expect(store.ledger.history(owner.accountId, 1)).toMatchObject([
      { kind: "charge", amount: -charge, ref: "req:req_1", balanceAfter: balance - charge },
    ]);
  });

  test("beyond the hold, also from money that was held for a request that has ended", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 50_000n);
    const before = opened("req_0", owner, { hold: 50_000n });
    await writer.write({ kind: "openRequest", request: before });
    await writer.write({ kind: "settleRequest", settlement: ended("req_0", unbilled) });
    await writer.write({ kind: "openRequest", request: opened("req_1", owner, { hold: 10n }) });
    expect(await writer.write({ kind: "settleRequest", settlement: ended("req_1") })).toEqual({
      charge: costOfEnded,
      writeOff: 0n,
    });
  });
});

describe("the ledger", () => {
  test.each<[string, Partial<RequestSettlement>, number]>([
    ["bears a row for a done request that costs nothing", { ...unbilled, status: "done" }, 1],
    [
      "bears none for one that was cancelled free of charge",
      { ...unbilled, status: "cancelled" },
      0,
    ],
    ["bears one for one that was cancelled with a charge", { status: "cancelled" }, 1],
    ["bears none for one that failed", unbilled, 0],
  ])("%s", async (_, changes, rows) => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    await writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    await writer.write({ kind: "settleRequest", settlement: ended("req_1", changes) });
    const charges = store.ledger
      .history(owner.accountId, 10)
      .filter(({ kind }) => kind === "charge");
    expect(charges).toHaveLength(rows);
  });

  test("counts beyond 9 million roubles to the nano-rouble", async () => {
    const { store, writer } = storeFolder;
    const large = 2n ** 53n + 1n;
    const owner = fund(store, "alice", large);
    expect(store.accounts.find("alice")?.balance).toBe(large);
    store.admin.changeBalance(actor, {
      account: "alice",
      kind: "credit",
      amount: large,
      ref: null,
      note: null,
    });
    await writer.write({ kind: "openRequest", request: opened("req_1", owner, { hold: large }) });
    expect(store.accounts.find("alice")).toMatchObject({ balance: large * 2n, held: large });
    await writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    expect(store.accounts.find("alice")?.balance).toBe(large * 2n - costOfEnded);
    expect(
      store.ledger.history(owner.accountId, 3).map(({ balanceAfter }) => balanceAfter),
    ).toEqual([large * 2n - costOfEnded, large * 2n, large]);
  });
});

describe("a day whose sums leave 64 bits", () => {
  const huge = 4_000_000_000_000_000_000n;

  async function runHuge(count: number, model: string): Promise<void> {
    const { writer } = storeFolder;
    for (let at = 0; at < count; at += 1) {
      const id = `req_${model}_${at}`;
      await writer.write({ kind: "openRequest", request: opened(id, owner, { model }) });
      await writer.write({ kind: "settleRequest", settlement: ended(id, { operatorCost: huge }) });
    }
  }

  let owner: { accountId: number; keyId: number };
  beforeEach(() => {
    owner = fund(storeFolder.store, "alice", 1_000_000n);
  });

  test("is reported exactly, as long as one group of it does not", async () => {
    for (const model of ["a", "b", "c"]) await runHuge(2, model);
    expect(storeFolder.store.usage("day", {})).toMatchObject([
      { requests: 6, operatorCost: 6n * huge },
    ]);
  });

  test("fails no settling where a group does: its cost of our own stays at the most there is", async () => {
    await runHuge(3, "a");
    const report = [{ requests: 3, operatorCost: 2n ** 63n - 1n, cost: 3n * costOfEnded }];
    expect(storeFolder.store.usage("day", {})).toMatchObject(report);
    expect(storeFolder.store.audit().problems).toEqual([]);
  });
});

describe("a request", () => {
  test("ends once: a second end is refused and charges nothing", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    await writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    await writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    const again = writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    expect(await again.catch((error: unknown) => error)).toMatchObject({
      name: "WriteError",
      failure: "refused",
    });
    expect(store.accounts.find("alice")?.balance).toBe(1_000_000n - costOfEnded);
  });

  test("that claims another cost than its tokens have is refused and stays open", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    await writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    const wrong = writer.write({
      kind: "settleRequest",
      settlement: ended("req_1", { cost: costOfEnded + 1n }),
    });
    expect(await wrong.catch((error: unknown) => error)).toMatchObject({ failure: "refused" });
    expect(store.requests.find("req_1")).toMatchObject({ status: "running", charge: 0n });
    expect(store.accounts.find("alice")).toMatchObject({ balance: 1_000_000n, held: 100_000n });
  });

  test("keeps its attempts in their order", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    await writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    await writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    expect(store.requests.attempts("req_1")).toEqual([...ended("req_1").attempts]);
    expect(store.requests.find("req_1")?.attemptCount).toBe(2);
  });

  test("that a crash left running is interrupted, its hold is gone, and nothing is charged", async () => {
    const { store, writer } = storeFolder;
    const owner = fund(store, "alice", 1_000_000n);
    await writer.write({ kind: "openRequest", request: opened("req_1", owner) });
    await writer.write({ kind: "openRequest", request: opened("req_2", owner) });
    await writer.write({ kind: "settleRequest", settlement: ended("req_2") });
    expect(store.interruptRunning()).toEqual({ count: 1, held: 100_000n });
    expect(store.interruptRunning()).toEqual({ count: 0, held: 0n });
    expect(store.requests.find("req_1")?.status).toBe("interrupted");
    expect(store.accounts.find("alice")).toMatchObject({
      balance: 1_000_000n - costOfEnded,
      held: 0n,
    });
    expect(store.audit().problems).toEqual([]);
  });
});

describe("the check of the money when a request is opened", () => {
  let owner: { accountId: number; keyId: number };
  beforeEach(() => {
    owner = fund(storeFolder.store, "alice", 100_000n);
  });

  /** The row of a request that was promised all its account had; resolves with what became of it. */
  function open(id: string, changes: Partial<OpenedRequest> = {}): Promise<unknown> {
    const request = opened(id, owner, { hold: 100_000n, ...changes });
    return storeFolder.writer.write({ kind: "openRequest", request }).then(
      () => "opened",
      (error: unknown) => error,
    );
  }

  const isInsufficient = { name: "WriteError", failure: "insufficient" };

  describe("a request whose money went between its promise and its row is refused", () => {
    test("when a debit took it", async () => {
      const debit = { account: "alice", kind: "debit", amount: 1n, ref: null, note: null } as const;
      storeFolder.store.admin.changeBalance(actor, debit);
      expect(await open("req_1")).toMatchObject(isInsufficient);
      expect(storeFolder.store.requests.find("req_1")).toBeUndefined();
      expect(await open("req_2", { hold: 99_999n })).toBe("opened");
    });

    test("when the overdraft was lowered", async () => {
      storeFolder.store.admin.setOverdraft(actor, "alice", 10n);
      storeFolder.store.admin.setOverdraft(actor, "alice", 9n);
      expect(await open("req_1", { hold: 100_010n })).toMatchObject(isInsufficient);
      expect(await open("req_2", { hold: 100_009n })).toBe("opened");
    });

    test("when a charge beyond its own hold took it, and the neighbours in the batch are not", async () => {
      const bob = fund(storeFolder.store, "bob", 100_000n);
      const rest = 100_000n - costOfEnded;
      const [, , refused, neighbour] = await Promise.all([
        open("req_1", { hold: 10_000n }),
        storeFolder.writer.write({ kind: "settleRequest", settlement: ended("req_1") }),
        open("req_2", { hold: rest + 1n, heldTotal: 10_000n + rest + 1n }),
        open("req_3", { ...bob, hold: 100_000n }),
      ]);
      expect(refused).toMatchObject(isInsufficient);
      expect(neighbour).toBe("opened");
      expect(await open("req_4", { hold: rest, heldTotal: 10_000n + rest })).toBe("opened");
    });
  });

  test("a request is opened that fits the money, whatever was promised to those that ended since", async () => {
    expect(await open("req_1", { hold: 40_000n, heldTotal: 1_000_000n })).toBe("opened");
    expect(await open("req_2", { hold: 60_000n, heldTotal: 1_000_000n })).toBe("opened");
    expect(await open("req_3", { hold: 1n, heldTotal: 1_000_000n })).toMatchObject(isInsufficient);
  });
});

describe("sums that exceed 64 bits", () => {
  const TOKENS = 1_000_000_000;
  /** Of what two bookings of the largest amount may be, and four may not. */
  const priceOutput = NANO_ROUBLES_MAX / BigInt(TOKENS);

  let alice: { accountId: number; keyId: number };
  beforeEach(() => {
    alice = fund(storeFolder.store, "alice", NANO_ROUBLES_MAX);
  });

  function credit(): void {
    const booking = { account: "alice", kind: "credit", ref: null, note: null } as const;
    storeFolder.store.admin.changeBalance(actor, { ...booking, amount: NANO_ROUBLES_MAX });
  }

  test("the audit adds up charges and refunds of several days that together leave 64 bits", async () => {
    credit();
    for (let day = 0; day < 3; day += 1) {
      for (const id of [`req_${day}_1`, `req_${day}_2`]) {
        const hold = NANO_ROUBLES_MAX;
        const request = opened(id, alice, { at: actor.at + day * DAY_MS, priceOutput, hold });
        await storeFolder.writer.write({ kind: "openRequest", request });
        const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
        const end = ended(id, { ...tokens, completionTokens: TOKENS, cost: NANO_ROUBLES_MAX });
        expect(
          await storeFolder.writer.write({ kind: "settleRequest", settlement: end }),
        ).toMatchObject({ writeOff: 0n });
        if (day < 2)
          storeFolder.store.admin.refund(actor, {
            request: id,
            amount: null,
            ref: null,
            note: null,
          });
      }
    }
    expect(storeFolder.store.audit().problems).toEqual([]);
    expect(storeFolder.store.keys.list("alice")).toMatchObject([{ spent: 2n * NANO_ROUBLES_MAX }]);
  });

  test("an account that was promised more than 64 bits hold can be shown, charged and refused", async () => {
    credit();
    // No command allows that any more.
    const sqlite = new Database(storeFolder.path);
    sqlite.run("UPDATE accounts SET overdraft = 4000000000000000000");
    sqlite.close();
    for (const id of ["req_1", "req_2", "req_3"]) {
      const request = opened(id, alice, { hold: NANO_ROUBLES_MAX });
      await storeFolder.writer.write({ kind: "openRequest", request });
    }
    expect(storeFolder.store.accounts.find("alice")).toMatchObject({ held: 3n * NANO_ROUBLES_MAX });
    const more = opened("req_4", alice, { hold: 1n, heldTotal: 3n * NANO_ROUBLES_MAX + 1n });
    expect(
      await storeFolder.writer.write({ kind: "openRequest", request: more }).catch(String),
    ).toContain("cannot pay the hold");
    // Beyond its hold nothing is left for it.
    await storeFolder.writer.write({ kind: "settleRequest", settlement: ended("req_1") });
    for (const id of ["req_2", "req_3"])
      await storeFolder.writer.write({
        kind: "settleRequest",
        settlement: ended(id, { status: "cancelled" }),
      });
    expect(storeFolder.store.accounts.find("alice")).toMatchObject({ held: 0n });
  });
});
