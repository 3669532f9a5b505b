import { Database } from "bun:sqlite";
import { beforeEach, describe, expect, test } from "bun:test";
import { seededRandom } from "../support/seededRandom.ts";
import { rotate } from "../support/store/sampleLedger.ts";
import {
  actor,
  costOfEnded,
  ended,
  fund,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const funds = 1_000_000n;

const storeFolder = openStoreBefore({ audited: true });
let alice: Owner;
beforeEach(() => {
  alice = fund(storeFolder.store, "alice", funds);
});

async function charge(id: string, owner = alice, end = {}): Promise<void> {
  await storeFolder.record(ended(id, owner, end));
}

function refund(request: string, amount: bigint | null = null, ref: string | null = null) {
  return storeFolder.store.admin.refund(actor, { request, amount, ref, note: null });
}

function balance(account = "alice"): bigint | undefined {
  return storeFolder.store.accounts.find(account)?.balance;
}

function spent(key = "key_alice"): bigint | undefined {
  return storeFolder.store.keys.find(key)?.spent;
}

describe("a refund", () => {
  test("gives back the whole charge, and the key's budget with it", async () => {
    await charge("req_1");
    expect([balance(), spent()]).toEqual([funds - costOfEnded, costOfEnded]);
    expect(refund("req_1")).toMatchObject({
      account: { name: "alice", balance: funds },
      amount: costOfEnded,
      applied: true,
    });
    expect([balance(), spent()]).toEqual([funds, 0n]);
    expect(storeFolder.store.requests.find("req_1")?.refunded).toBe(costOfEnded);
    expect(storeFolder.store.requests.find("req_1")?.charge).toBe(costOfEnded);
  });

  test("in parts gives back no more than the charge: the last one what is left", async () => {
    await charge("req_1");
    refund("req_1", 295n);
    refund("req_1", 9_999n);
    expect(() => refund("req_1", 2n)).toThrow("has 0.000000001 roubles of its charge left");
    expect(refund("req_1").amount).toBe(1n);
    expect(() => refund("req_1")).toThrow("all of the charge");
    expect(() => refund("req_1", 1n)).toThrow("all of the charge");
    expect([balance(), spent()]).toEqual([funds, 0n]);
  });

  test("stands in the history with its request", async () => {
    await charge("req_1");
    refund("req_1", 295n, "sorry");
    expect(storeFolder.store.ledger.history(alice.accountId, 1)).toMatchObject([
      { kind: "refund", amount: 295n, ref: "sorry", requestId: "req_1", actor: "tester" },
    ]);
  });

  test("of a cancelled request gives back what that was charged", async () => {
    await charge("req_1", alice, { status: "cancelled" });
    expect(refund("req_1").amount).toBe(costOfEnded);
  });

  test("of an account that is disabled reaches it all the same", async () => {
    await charge("req_1");
    storeFolder.store.admin.setDisabled(actor, "alice", true);
    expect(refund("req_1").account.balance).toBe(funds);
  });

  test("of a rotated key lowers what its whole line has spent", async () => {
    await charge("req_1");
    const next = rotate(storeFolder, "key_alice", "key_next");
    await charge("req_2", { ...alice, keyId: next });
    expect([spent(), spent("key_next")]).toEqual([2n * costOfEnded, 2n * costOfEnded]);
    refund("req_1");
    refund("req_2", 295n);
    expect([spent(), spent("key_next")]).toEqual([10_000n, 10_000n]);
    expect(storeFolder.store.keys.list("alice").map(({ firstKeyId }) => firstKeyId)).toEqual([
      alice.keyId,
      alice.keyId,
    ]);
  });

  test("that would take the balance out of 64 bits is refused", async () => {
    await charge("req_1");
    for (const amount of [
      4_000_000_000_000_000_000n,
      4_000_000_000_000_000_000n,
      1_223_372_036_853_786_000n,
    ])
      storeFolder.store.admin.changeBalance(actor, {
        account: "alice",
        kind: "credit",
        amount,
        ref: null,
        note: null,
      });
    expect(() => refund("req_1")).toThrow("larger than 64 bits can hold");
  });
});

describe("a refund with a ref", () => {
  test("is booked once, however often it is asked for", async () => {
    await charge("req_1");
    expect(refund("req_1", 295n, "sorry")).toMatchObject({ applied: true, amount: 295n });
    expect(refund("req_1", 295n, "sorry")).toMatchObject({
      applied: false,
      amount: 295n,
      account: { balance: funds - 10_000n },
    });
  });

  test("of all that is left is the same refund again, whatever came after it", async () => {
    await charge("req_1");
    refund("req_1", 295n);
    expect(refund("req_1", null, "rest")).toMatchObject({ applied: true, amount: 10_000n });
    expect(refund("req_1", null, "rest")).toMatchObject({ applied: false, amount: 10_000n });
    expect(refund("req_1", 10_000n, "rest")).toMatchObject({ applied: false });
    expect(balance()).toBe(funds);
  });

  test("stays the same refund when its request is folded", async () => {
    await charge("req_1");
    refund("req_1", 295n, "sorry");
    await storeFolder.writer.write({ kind: "fold", before: actor.at + 1 });
    expect(refund("req_1", 295n, "sorry")).toMatchObject({ applied: false });
  });

  test.each([
    ["another amount", () => refund("req_1", 294n, "sorry")],
    ["all instead of a part", () => refund("req_1", null, "sorry")],
    ["another request", () => refund("req_2", 295n, "sorry")],
    ["a request that was never charged", () => refund("req_x", 295n, "sorry")],
    [
      "a credit",
      () =>
        storeFolder.store.admin.changeBalance(actor, {
          account: "alice",
          kind: "credit",
          amount: 295n,
          ref: "sorry",
          note: null,
        }),
    ],
  ])("that was used for it is refused to %s", async (_, again) => {
    await charge("req_1");
    await charge("req_2");
    refund("req_1", 295n, "sorry");
    expect(again).toThrow(
      "was used before for another ledger entry (refund of 0.000000295): use a new ref",
    );
  });

  test("of a credit is refused", async () => {
    await charge("req_1");
    storeFolder.store.admin.changeBalance(actor, {
      account: "alice",
      kind: "credit",
      amount: costOfEnded,
      ref: "pay",
      note: null,
    });
    expect(() => refund("req_1", null, "pay")).toThrow(
      "was used before for another ledger entry (credit",
    );
  });
});

describe("a refund is refused", () => {
  test.each([
    ["failed", { ...unbilled }, "was not charged (it is failed)"],
    [
      "was cancelled free of charge",
      { ...unbilled, status: "cancelled" },
      "was not charged (it is cancelled)",
    ],
    ["cost nothing", { ...unbilled, status: "done" }, "cost nothing"],
  ])("of a request that %s", async (_, end, reason) => {
    await charge("req_1", alice, end);
    expect(() => refund("req_1")).toThrow(reason);
  });

  test("of a request that runs", async () => {
    await storeFolder.record(running("req_1", alice));
    expect(() => refund("req_1")).toThrow("still running");
  });

  test("of a request that there never was", () => {
    expect(() => refund("req_1")).toThrow('no charge of request "req_1"');
  });

  test("of a request that is folded, which names the way that is left", async () => {
    await charge("req_1");
    await storeFolder.writer.write({ kind: "fold", before: actor.at + 1 });
    expect(() => refund("req_1")).toThrow("tollgate balance credit alice");
    expect(balance()).toBe(funds - costOfEnded);
  });
});

test("the admin log tells of a refund which request, how much and by which ref", async () => {
  await charge("req_1");
  refund("req_1", null, "sorry");
  expect(() => refund("req_1")).toThrow();
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const rows = sqlite
    .query("SELECT command, subject, detail FROM admin_log ORDER BY id DESC LIMIT 1")
    .all();
  sqlite.close();
  expect(rows).toEqual([
    { command: "balance refund", subject: "req_1", detail: "0.000010295 ref sorry" },
  ]);
});

test("whatever is refunded in whatever order, no request gets back more than it was charged", async () => {
  const { below, chance, pick } = seededRandom(20_260_101);
  const ids = Array.from({ length: 8 }, (_, at) => `req_${at}`);
  for (const id of ids) await charge(id);
  const given = new Map(ids.map((id) => [id, 0n]));
  let refused = 0;
  for (let step = 0; step < 400; step += 1) {
    const id = pick(ids);
    const amount = chance(0.05) ? null : BigInt(1 + below(5000));
    const left = costOfEnded - (given.get(id) ?? 0n);
    const wanted = amount ?? left;
    try {
      expect(refund(id, amount).amount).toBe(wanted);
      given.set(id, (given.get(id) ?? 0n) + wanted);
    } catch (error) {
      if (left > 0n && wanted <= left) throw error;
      refused += 1;
    }
    expect(storeFolder.store.requests.find(id)?.refunded).toBe(given.get(id) ?? 0n);
  }
  const all = given.values().reduce((sum, amount) => sum + amount, 0n);
  expect(given.values().every((amount) => amount <= costOfEnded)).toBe(true);
  expect(refused).toBeGreaterThan(100);
  expect(balance()).toBe(funds - 8n * costOfEnded + all);
  expect(spent()).toBe(8n * costOfEnded - all);
}, 30_000);
