import { describe, expect, test } from "bun:test";
import { NANO_ROUBLES_MAX } from "../../src/lib/money.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { actor } from "../support/store/storeFolder.ts";

describeStores("the changes of commands:", (current) => {
  async function book(
    kind: "credit" | "debit",
    amount: bigint,
    ref: string | null = null,
    account = "alice",
  ) {
    const booking = { account, kind, amount, ref, note: null };
    return await current.store.admin.changeBalance(actor, booking);
  }

  async function setOverdraft(overdraft: bigint) {
    return await current.store.admin.setAccount(actor, "alice", { overdraft });
  }

  describe("a booking", () => {
    test("with the ref and amount of one that stands changes nothing", async () => {
      const { accountId } = await current.fund("alice", 0n);
      const applied = { applied: true, account: { balance: 5n } };
      expect(await book("credit", 5n, "pay")).toMatchObject(applied);
      expect(await book("credit", 5n, "pay")).toMatchObject({ ...applied, applied: false });
      expect(await current.store.ledger.history(accountId, 10)).toHaveLength(1);
    });

    test.each([
      ["another amount", "credit", 6n, "alice"],
      ["another account", "credit", 5n, "bob"],
      ["another kind", "debit", 5n, "alice"],
    ] as const)("with a ref that was used for %s is refused", async (_, kind, amount, account) => {
      await current.fund("alice", 100n);
      await current.fund("bob", 100n);
      await book("credit", 5n, "pay");
      expect(book(kind, amount, "pay", account)).rejects.toThrow("was used before");
      const accounts = await current.store.accounts.list();
      expect(accounts.map(({ balance }) => balance)).toEqual([105n, 100n]);
    });

    test("debits what is available and not a nano-rouble more", async () => {
      const { accountId } = await current.fund("alice", 1000n);
      await setOverdraft(50n);
      await current.reserve(accountId, 300n);
      expect(book("debit", 751n)).rejects.toThrow("available");
      expect((await book("debit", 750n)).account.balance).toBe(250n);
      expect(book("debit", 1n)).rejects.toThrow("available");
    });

    test("that would leave 64 bits together with the overdraft is refused, and so is such an overdraft", async () => {
      await current.fund("alice", NANO_ROUBLES_MAX);
      await book("credit", NANO_ROUBLES_MAX);
      const left = 9_223_372_036_854_775_807n - 2n * NANO_ROUBLES_MAX;
      expect(setOverdraft(left + 1n)).rejects.toThrow(
        "larger than 64 bits can hold: choose an overdraft of at most 1223372036.854775807 roubles",
      );
      await setOverdraft(left - 5n);
      expect(book("credit", 6n)).rejects.toThrow(
        "larger than 64 bits can hold: choose an amount of at most 0.000000005 roubles",
      );
      await book("credit", 5n);
      expect(book("credit", 1n)).rejects.toThrow(
        "larger than 64 bits can hold: nothing can be added",
      );
      expect((await book("debit", 1n)).account.balance).toBe(2n * NANO_ROUBLES_MAX + 4n);
    });

    test("that would leave 64 bits is refused", async () => {
      await current.fund("alice", 0n);
      await book("credit", NANO_ROUBLES_MAX);
      await book("credit", NANO_ROUBLES_MAX);
      expect(book("credit", NANO_ROUBLES_MAX)).rejects.toThrow("larger than 64 bits can hold");
      const account = await current.store.accounts.find("alice");
      expect(account?.balance).toBe(NANO_ROUBLES_MAX * 2n);
    });

    test("on an account that is not there is refused", async () => {
      expect(book("credit", 1n)).rejects.toThrow('no account "alice"');
    });
  });

  describe("an account", () => {
    test("exists once", async () => {
      const create = async (overdraft: bigint) =>
        await current.store.admin.createAccount(actor, "alice", overdraft);
      const created = await create(7n);
      expect(create(0n)).rejects.toThrow("exists already");
      expect(await current.store.accounts.list()).toEqual([created]);
      expect(created).toMatchObject({ name: "alice", overdraft: 7n, balance: 0n });
    });

    test("keeps the overdraft that is spent or held", async () => {
      const { accountId } = await current.fund("alice", 0n);
      await setOverdraft(100n);
      await book("debit", 40n);
      await current.reserve(accountId, 30n);
      expect(setOverdraft(69n)).rejects.toThrow("spent or held");
      expect((await setOverdraft(70n)).overdraft).toBe(70n);
    });

    test("is disabled and enabled again", async () => {
      await current.fund("alice", 0n);
      for (const disabled of [true, true, false]) {
        const changed = await current.store.admin.setDisabled(actor, "alice", disabled);
        expect(changed.disabled).toBe(disabled);
        expect((await current.store.keys.find("key_alice"))?.accountDisabled).toBe(disabled);
      }
    });
  });

  describe("a key", () => {
    test("is revoked once, and stays as it was then", async () => {
      await current.fund("alice", 0n);
      const { admin } = current.store;
      const first = await admin.revokeKey({ ...actor, at: 5 }, "key_alice");
      const second = await admin.revokeKey({ ...actor, at: 9 }, "key_alice");
      expect([first.applied, second.applied]).toEqual([true, false]);
      expect(second.key.revokedAt).toBe(5);
    });

    test("belongs to the account that was there, or to a new one", async () => {
      const { keys, admin } = current.store;
      await admin.createAccount(actor, "alice", 0n);
      await current.fund("alice", 0n);
      await current.fund("bob", 0n);
      const all = await keys.list(undefined);
      expect(all.map(({ account }) => account)).toEqual(["alice", "bob"]);
      expect((await keys.list("bob")).map(({ publicId }) => publicId)).toEqual(["key_bob"]);
    });

    test("with the id of another one is a bug, and changes nothing", async () => {
      await current.fund("alice", 5n);
      const again = current.fund("bob", 5n, { name: "alice", budget: null });
      expect(again).rejects.toThrow(/there already|unique/i);
      expect(await current.store.accounts.list()).toHaveLength(1);
    });
  });

  test("the admin log tells who changed what, and nothing of a change that failed or was made before", async () => {
    const { admin } = current.store;
    await current.fund("alice", 12n);
    await book("credit", 5n, "pay");
    await book("credit", 5n, "pay");
    expect(book("debit", 99n, "too-much")).rejects.toThrow();
    await admin.setDisabled({ ...actor, command: "accounts disable" }, "alice", true);
    await admin.revokeKey({ ...actor, command: "keys revoke" }, "key_alice");
    await admin.revokeKey(actor, "key_alice");
    expect(await current.adminLog()).toEqual([
      { actor: "tester", command: "test", subject: "key_alice", detail: "account alice" },
      { actor: "tester", command: "test", subject: "alice", detail: "0.000000012" },
      { actor: "tester", command: "test", subject: "alice", detail: "0.000000005 ref pay" },
      { actor: "tester", command: "accounts disable", subject: "alice", detail: null },
      { actor: "tester", command: "keys revoke", subject: "key_alice", detail: null },
    ]);
  });
});
