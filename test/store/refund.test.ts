import { beforeEach, describe, expect, test } from "bun:test";
import { seededRandom } from "../support/seededRandom.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import {
  actor,
  costOfEnded,
  ended,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";

const funds = 1_000_000n;

describeStores("refunds:", (current) => {
  let alice: Owner;
  beforeEach(async () => {
    alice = await current.fund("alice", funds);
  });

  async function charge(id: string, owner = alice, end = {}): Promise<void> {
    await current.record(ended(id, owner, end));
  }

  async function refund(request: string, amount: bigint | null = null, ref: string | null = null) {
    return await current.store.admin.refund(actor, { request, amount, ref, note: null });
  }

  async function credit(amount: bigint, ref: string | null = null) {
    const booking = { account: "alice", kind: "credit", amount, ref, note: null } as const;
    return await current.store.admin.changeBalance(actor, booking);
  }

  async function balance(): Promise<bigint | undefined> {
    return (await current.store.accounts.find("alice"))?.balance;
  }

  async function spent(key = "key_alice"): Promise<bigint | undefined> {
    return (await current.store.keys.find(key))?.spent;
  }

  /** Moves all requests into the ledger. */
  async function fold(): Promise<void> {
    await current.writer.write({ kind: "fold", before: actor.at + 1 });
  }

  describe("a refund", () => {
    test("gives back the whole charge, and the key's budget with it", async () => {
      await charge("req_1");
      expect([await balance(), await spent()]).toEqual([funds - costOfEnded, costOfEnded]);
      expect(await refund("req_1")).toMatchObject({
        account: { name: "alice", balance: funds },
        amount: costOfEnded,
        applied: true,
      });
      expect([await balance(), await spent()]).toEqual([funds, 0n]);
      const request = { refunded: costOfEnded, charge: costOfEnded };
      expect(await current.store.requests.find("req_1")).toMatchObject(request);
    });

    test("in parts gives back no more than the charge: the last one what is left", async () => {
      await charge("req_1");
      await refund("req_1", 295n);
      await refund("req_1", 9_999n);
      expect(refund("req_1", 2n)).rejects.toThrow("has 0.000000001 roubles of its charge left");
      expect((await refund("req_1")).amount).toBe(1n);
      expect(refund("req_1")).rejects.toThrow("all of the charge");
      expect(refund("req_1", 1n)).rejects.toThrow("all of the charge");
      expect([await balance(), await spent()]).toEqual([funds, 0n]);
    });

    test("stands in the history with its request", async () => {
      await charge("req_1");
      await refund("req_1", 295n, "sorry");
      expect(await current.store.ledger.history(alice.accountId, 1)).toMatchObject([
        { kind: "refund", amount: 295n, ref: "sorry", requestId: "req_1", actor: "tester" },
      ]);
    });

    test("of a cancelled request gives back what that was charged", async () => {
      await charge("req_1", alice, { status: "cancelled" });
      expect((await refund("req_1")).amount).toBe(costOfEnded);
    });

    test("of an account that is disabled reaches it all the same", async () => {
      await charge("req_1");
      await current.store.admin.setDisabled(actor, "alice", true);
      expect((await refund("req_1")).account.balance).toBe(funds);
    });

    test("of a rotated key lowers what its whole line has spent", async () => {
      await charge("req_1");
      const next = await current.rotate("key_alice", "key_next");
      await charge("req_2", { ...alice, keyId: next });
      const all = async () => [await spent(), await spent("key_next")];
      expect(await all()).toEqual([2n * costOfEnded, 2n * costOfEnded]);
      await refund("req_1");
      await refund("req_2", 295n);
      expect(await all()).toEqual([10_000n, 10_000n]);
      const keys = await current.store.keys.list("alice");
      expect(keys.map(({ firstKeyId }) => firstKeyId)).toEqual([alice.keyId, alice.keyId]);
    });

    test("that would take the balance out of 64 bits is refused", async () => {
      await charge("req_1");
      for (const amount of [
        4_000_000_000_000_000_000n,
        4_000_000_000_000_000_000n,
        1_223_372_036_853_786_000n,
      ])
        await credit(amount);
      expect(refund("req_1")).rejects.toThrow("larger than 64 bits can hold");
    });
  });

  describe("a refund with a ref", () => {
    test("is booked once, however often it is asked for", async () => {
      await charge("req_1");
      expect(await refund("req_1", 295n, "sorry")).toMatchObject({ applied: true, amount: 295n });
      expect(await refund("req_1", 295n, "sorry")).toMatchObject({
        applied: false,
        amount: 295n,
        account: { balance: funds - 10_000n },
      });
    });

    test("of all that is left is the same refund again, whatever came after it", async () => {
      await charge("req_1");
      await refund("req_1", 295n);
      const rest = { applied: true, amount: 10_000n };
      expect(await refund("req_1", null, "rest")).toMatchObject(rest);
      expect(await refund("req_1", null, "rest")).toMatchObject({ ...rest, applied: false });
      expect(await refund("req_1", 10_000n, "rest")).toMatchObject({ applied: false });
      expect(await balance()).toBe(funds);
    });

    test("stays the same refund when its request is folded", async () => {
      await charge("req_1");
      await refund("req_1", 295n, "sorry");
      await fold();
      expect(await refund("req_1", 295n, "sorry")).toMatchObject({ applied: false });
    });

    test.each<[string, () => Promise<unknown>]>([
      ["another amount", () => refund("req_1", 294n, "sorry")],
      ["all instead of a part", () => refund("req_1", null, "sorry")],
      ["another request", () => refund("req_2", 295n, "sorry")],
      ["a request that was never charged", () => refund("req_x", 295n, "sorry")],
      ["a credit", () => credit(295n, "sorry")],
    ])("that was used for it is refused to %s", async (_, again) => {
      await charge("req_1");
      await charge("req_2");
      await refund("req_1", 295n, "sorry");
      expect(again()).rejects.toThrow(
        "was used before for another ledger entry (refund of 0.000000295): use a new ref",
      );
    });

    test("of a credit is refused", async () => {
      await charge("req_1");
      await credit(costOfEnded, "pay");
      expect(refund("req_1", null, "pay")).rejects.toThrow(
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
      expect(refund("req_1")).rejects.toThrow(reason);
    });

    test("of a request that runs", async () => {
      await current.record(running("req_1", alice));
      expect(refund("req_1")).rejects.toThrow("still running");
    });

    test("of a request that there never was", async () => {
      expect(refund("req_1")).rejects.toThrow('no charge of request "req_1"');
    });

    test("of a request that is folded, which names the way that is left", async () => {
      await charge("req_1");
      await fold();
      expect(refund("req_1")).rejects.toThrow("tollgate balance credit alice");
      expect(await balance()).toBe(funds - costOfEnded);
    });
  });

  test("the admin log tells of a refund which request, how much and by which ref", async () => {
    await charge("req_1");
    await refund("req_1", null, "sorry");
    expect(refund("req_1")).rejects.toThrow();
    expect((await current.adminLog()).at(-1)).toEqual({
      actor: "tester",
      command: "test",
      subject: "req_1",
      detail: "0.000010295 ref sorry",
    });
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
        expect((await refund(id, amount)).amount).toBe(wanted);
        given.set(id, (given.get(id) ?? 0n) + wanted);
      } catch (error) {
        if (left > 0n && wanted <= left) throw error;
        refused += 1;
      }
      const request = await current.store.requests.find(id);
      expect(request?.refunded).toBe(given.get(id) ?? 0n);
    }
    const all = given.values().reduce((sum, amount) => sum + amount, 0n);
    expect(given.values().every((amount) => amount <= costOfEnded)).toBe(true);
    expect(refused).toBeGreaterThan(100);
    expect(await balance()).toBe(funds - 8n * costOfEnded + all);
    expect(await spent()).toBe(8n * costOfEnded - all);
  }, 60_000);
});
