import { describe, expect, test } from "bun:test";
import type { RequestRecord } from "../../src/store/store.ts";
import type { AccountState, ChainState } from "../../src/store/writer/batchMoney.ts";
import { needsOf, planBatch, type BatchPlan } from "../../src/store/writer/plan.ts";
import type { ReserveTarget } from "../../src/store/writer/effects.ts";
import { toWire, type WriteOperation } from "../../src/store/writer/writerMessages.ts";
import { priceOf, requestRecord, runningRecord } from "../support/store/recordedRequest.ts";

const alone = { reserved: 0n, others: 0n };
const account = { ...alone, balance: 1000n, overdraft: 0n, ledgerSeq: 7n, reserved: 500n };
const chain: ChainState = { ...alone, spent: 40n, budget: null };
/** Of a replica: another one has 300 of the account, and 60 of the chain's budget of 200. */
const shared = { ...account, others: 300n };
const sharedChain = { ...chain, budget: 200n, reserved: 50n, others: 60n };

interface Case {
  readonly operations?: readonly WriteOperation[];
  readonly reserves?: readonly ReserveTarget[];
  readonly onlyRaise?: boolean;
  readonly accounts?: readonly [number, AccountState][];
  readonly chains?: readonly [number, ChainState][];
  readonly lateRows?: readonly [string, number][];
}

function plan({ operations = [], reserves = [], onlyRaise = false, ...found }: Case): BatchPlan {
  const voucher = { publicId: "v", expiresAt: null, revokedAt: null, redeemedById: null };
  return planBatch(needsOf({ operations: operations.map(toWire), reserves, onlyRaise }), {
    accounts: new Map(found.accounts ?? [[1, account]]),
    chains: new Map(found.chains ?? [[1, chain]]),
    lateRows: new Map(found.lateRows),
    vouchers: new Map([[5, { ...voucher, amount: 90n }]]),
  });
}

const record = (changes: Partial<RequestRecord>): WriteOperation => {
  return { kind: "recordRequest", record: requestRecord(changes) };
};
const late = (publicId: string): WriteOperation => {
  return { kind: "recordRequest", record: runningRecord({ publicId }) };
};
const redeem = (voucherId: number, accountId = 1): WriteOperation => {
  return { kind: "redeemVoucher", redemption: { voucherId, accountId, actor: "key_1", at: 3 } };
};
const touch = (at: number, address: string | null): WriteOperation => {
  return { kind: "touchKey", accountId: 1, keyId: 1, at, address };
};
const owns = (hash: number, provider: string) => {
  return { hash: new Uint8Array([hash]), accountId: 1, provider, expiresAt: 9, historyTokens: 0 };
};

describe("a plan", () => {
  test("has a row for each figure that is no token, and adds them up by group", () => {
    const price = priceOf({ webSearch: 100n });
    const { inserted, figures, dailyFigures, totals } = plan({
      operations: [
        record({ publicId: "one", price, webSearches: 3, charge: 300n }),
        record({ publicId: "two", price: priceOf({ webSearch: 0n }), webSearches: 2 }),
        record({ publicId: "other", price, provider: "other", webSearches: 1, charge: 100n }),
        record({ publicId: "none", price }),
      ],
    });
    expect(inserted).toMatchObject([
      { publicId: "one", hasFigures: 1, figuresPrice: 300 },
      { publicId: "two", hasFigures: 1, figuresPrice: 0 },
      { publicId: "other", hasFigures: 1, figuresPrice: 100 },
      { publicId: "none", hasFigures: 0, figuresPrice: 0 },
    ]);
    const figure = "web_searches";
    expect(figures).toEqual([
      { publicId: "one", figure, quantity: 3, price: 100 },
      { publicId: "two", figure, quantity: 2, price: 0 },
      { publicId: "other", figure, quantity: 1, price: 100 },
    ]);
    expect(totals).toHaveLength(2);
    expect(dailyFigures).toMatchObject([
      { day: 0, provider: "local", figure, quantity: 5 },
      { day: 0, provider: "other", figure, quantity: 1 },
    ]);
  });

  test("numbers the ends of late rows first, and charges follow from each other", () => {
    const { ended, inserted, accounts, keys, attempts } = plan({
      operations: [
        record({ publicId: "new", charge: 10n }),
        record({ publicId: "failed", status: "failed" }),
        record({ publicId: "free", charge: 0n }),
        record({ publicId: "late", charge: 20n, mayHaveRow: true }),
        record({
          publicId: "tried",
          status: "cancelled",
          charge: 3n,
          attempts: [{ provider: "other", outcome: "timeout", status: null, durationMs: 1 }],
        }),
      ],
      lateRows: [["late", 77]],
    });
    const places = [...ended, ...inserted].map((row) => [
      row.publicId,
      row.ledgerSeq,
      row.balanceAfter,
    ]);
    expect(places).toEqual([
      ["late", 8, 980],
      ["new", 9, 970],
      ["failed", null, null],
      ["free", 10, 970],
      ["tried", 11, 967],
    ]);
    expect(ended.map(({ id }) => id)).toEqual([77]);
    expect(accounts).toEqual([
      { id: 1, balance: 967n, ledgerSeq: 11n, reserved: 467n, isMoved: true },
    ]);
    expect(keys).toEqual([{ id: 1, charged: 33n }]);
    expect(attempts).toMatchObject([{ publicId: "tried", n: 1, provider: "other" }]);
  });

  test("writes only the end of a request whose late row is in the same batch", () => {
    const { ended, inserted, results, totals } = plan({
      operations: [late("req_1"), late("req_2"), record({ publicId: "req_1", mayHaveRow: true })],
    });
    expect(ended).toEqual([]);
    expect(inserted.map(({ publicId, status }) => [publicId, status])).toEqual([
      ["req_2", "running"],
      ["req_1", "done"],
    ]);
    expect(results).toEqual([{}, {}, {}]);
    expect(totals).toMatchObject([{ requests: 1, charged: 1, failed: 0 }]);
  });

  test("credits a voucher once, before the charges", () => {
    const { credits, redeemed, results, inserted, accounts, effect } = plan({
      operations: [record({ charge: 10n }), redeem(5), redeem(5), redeem(5, 2), redeem(6)],
    });
    expect(credits).toEqual([
      {
        accountId: 1,
        seq: 8n,
        amount: 90n,
        balanceAfter: 1090n,
        ref: "voucher:v",
        actor: "key_1",
        at: 3,
      },
    ]);
    expect(redeemed).toEqual([{ id: 5, redeemedAt: 3, redeemedBy: 1 }]);
    const outcomes = ["applied", "repeated", "refused", "refused"] as const;
    expect(results).toEqual([{}, ...outcomes.map((outcome) => ({ redeemed: outcome }))]);
    expect(inserted).toMatchObject([{ ledgerSeq: 9, balanceAfter: 1080 }]);
    expect(accounts).toMatchObject([{ balance: 1080n, ledgerSeq: 9n }]);
    expect(effect).toEqual({
      accounts: [{ accountId: 1, balance: "1080", overdraft: "0", reserved: "490", others: "0" }],
      chains: [
        { accountId: 1, firstKeyId: 1, spent: "50", budget: null, reserved: "0", others: "0" },
      ],
    });
  });

  const wants = (reserved: number): ReserveTarget => ({ accountId: 1, reserved });
  test.each<[string, Case, bigint[], bigint[], number[]]>([
    ["no more than the account has", { reserves: [wants(5000)] }, [1000n], [1000n], []],
    ["less than before", { reserves: [wants(1)] }, [1n], [1n], []],
    ["what is there, if it may only rise", { reserves: [wants(1)], onlyRaise: true }, [], [], []],
    [
      "what the others leave, and tells that more is wanted",
      { reserves: [wants(5000)], accounts: [[1, shared]] },
      [1000n],
      [700n],
      [1],
    ],
    [
      "what the others leave of a budget",
      {
        reserves: [{ ...wants(500), chains: [{ firstKeyId: 1, reserved: 150 }] }],
        accounts: [[1, shared]],
        chains: [[1, sharedChain]],
      },
      [],
      [100n],
      [1],
    ],
    [
      "what is left of both after a charge, which may exceed the block of a budget",
      {
        operations: [record({ charge: 70n })],
        accounts: [[1, shared]],
        chains: [[1, sharedChain]],
      },
      [730n],
      [430n, 0n],
      [],
    ],
  ])("reserves %s", (_, batch, reserved, amounts, wanted) => {
    const { accounts, blocks, wanted: told } = plan(batch);
    expect(accounts.map((row) => row.reserved)).toEqual(reserved);
    expect(blocks.map(({ amount }) => amount)).toEqual(amounts);
    expect([...told]).toEqual(wanted);
  });

  test.each<[string, Case]>([
    ["has not reserved the charge", { operations: [record({ charge: 501n })] }],
    ["without an account", { operations: [record({ accountId: 2 })] }],
    ["without a key", { operations: [record({ firstKeyId: 2 })] }],
    ["a negative charge", { operations: [record({ charge: -1n })] }],
  ])("is refused: %s", (message, batch) => {
    expect(() => plan(batch)).toThrow(message);
  });

  test("adds up totals by group, and stops at 64 bits", () => {
    const huge = { operatorCost: 2n ** 62n, promptTokens: 3, charge: 5n };
    const { totals } = plan({
      operations: [
        ...["a", "b", "c"].map((publicId) => record({ ...huge, publicId })),
        record({ publicId: "d", provider: null, status: "failed" }),
      ],
    });
    const most = 2n ** 63n - 1n;
    expect(totals).toMatchObject([
      { provider: "local", requests: 3, charge: 15n, promptTokens: 9, operatorCost: most },
      { provider: "", requests: 1, failed: 1, charged: 0, charge: 0n, operatorCost: 0n },
    ]);
  });

  test("changes a key and an object once", () => {
    const { keys, owners } = plan({
      operations: [
        touch(3, "203.0.113.1"),
        record({ charge: 5n }),
        touch(4, null),
        { kind: "recordOwners", objects: [owns(7, "one"), owns(7, "other")], at: 8 },
      ],
    });
    expect(keys).toEqual([{ id: 1, charged: 5n, at: 4, address: null }]);
    expect(owners).toMatchObject([{ at: 8, objects: [{ hash: "07", provider: "other" }] }]);
  });
});
