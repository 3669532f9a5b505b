import { describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { NANO_ROUBLES_MAX } from "../../src/lib/money.ts";
import { actor, fund } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const storeFolder = openStoreBefore({ audited: true });

function book(
  kind: "credit" | "debit",
  amount: bigint,
  ref: string | null = null,
  account = "alice",
) {
  return storeFolder.store.admin.changeBalance(actor, { account, kind, amount, ref, note: null });
}

describe("a booking", () => {
  test("with the ref and amount of one that stands changes nothing", () => {
    fund(storeFolder.store, "alice", 0n);
    expect(book("credit", 5n, "pay")).toMatchObject({ applied: true, account: { balance: 5n } });
    expect(book("credit", 5n, "pay")).toMatchObject({ applied: false, account: { balance: 5n } });
    expect(storeFolder.store.ledger.history(1, 10)).toHaveLength(1);
  });

  test.each([
    ["another amount", "credit", 6n, "alice"],
    ["another account", "credit", 5n, "bob"],
    ["another kind", "debit", 5n, "alice"],
  ] as const)("with a ref that was used for %s is refused", (_, kind, amount, account) => {
    fund(storeFolder.store, "alice", 100n);
    fund(storeFolder.store, "bob", 100n);
    book("credit", 5n, "pay");
    expect(() => book(kind, amount, "pay", account)).toThrow("was used before");
    expect(storeFolder.store.accounts.list().map(({ balance }) => balance)).toEqual([105n, 100n]);
  });

  test("debits what is available and not a nano-rouble more", async () => {
    const { store } = storeFolder;
    const { accountId } = fund(store, "alice", 1000n);
    store.admin.setOverdraft(actor, "alice", 50n);
    await storeFolder.reserve(accountId, 300n);
    expect(() => book("debit", 751n)).toThrow("available");
    expect(book("debit", 750n).account.balance).toBe(250n);
    expect(() => book("debit", 1n)).toThrow("available");
  });

  test("that would leave 64 bits together with the overdraft is refused, and so is such an overdraft", () => {
    const { admin } = storeFolder.store;
    fund(storeFolder.store, "alice", NANO_ROUBLES_MAX);
    book("credit", NANO_ROUBLES_MAX);
    const left = 9_223_372_036_854_775_807n - 2n * NANO_ROUBLES_MAX;
    expect(() => admin.setOverdraft(actor, "alice", left + 1n)).toThrow(
      "larger than 64 bits can hold: choose an overdraft of at most 1223372036.854775807 roubles",
    );
    admin.setOverdraft(actor, "alice", left - 5n);
    expect(() => book("credit", 6n)).toThrow(
      "larger than 64 bits can hold: choose an amount of at most 0.000000005 roubles",
    );
    book("credit", 5n);
    expect(() => book("credit", 1n)).toThrow("larger than 64 bits can hold: nothing can be added");
    expect(book("debit", 1n).account.balance).toBe(2n * NANO_ROUBLES_MAX + 4n);
  });

  test("that would leave 64 bits is refused", () => {
    fund(storeFolder.store, "alice", 0n);
    book("credit", NANO_ROUBLES_MAX);
    book("credit", NANO_ROUBLES_MAX);
    expect(() => book("credit", NANO_ROUBLES_MAX)).toThrow("larger than 64 bits can hold");
    expect(storeFolder.store.accounts.find("alice")?.balance).toBe(NANO_ROUBLES_MAX * 2n);
  });

  test("on an account that is not there is refused", () => {
    expect(() => book("credit", 1n)).toThrow('no account "alice"');
  });
});

describe("an account", () => {
  test("exists once", () => {
    storeFolder.store.admin.createAccount(actor, "alice", 7n);
    expect(() => storeFolder.store.admin.createAccount(actor, "alice", 0n)).toThrow(
      "exists already",
    );
    expect(storeFolder.store.accounts.list()).toMatchObject([{ name: "alice", overdraft: 7n }]);
  });

  test("keeps the overdraft that is spent or held", async () => {
    const { store } = storeFolder;
    const { accountId } = fund(store, "alice", 0n);
    store.admin.setOverdraft(actor, "alice", 100n);
    book("debit", 40n);
    await storeFolder.reserve(accountId, 30n);
    expect(() => store.admin.setOverdraft(actor, "alice", 69n)).toThrow("spent or held");
    expect(store.admin.setOverdraft(actor, "alice", 70n).overdraft).toBe(70n);
  });
});

describe("a key", () => {
  test("is revoked once, and stays as it was then", () => {
    fund(storeFolder.store, "alice", 0n);
    const first = storeFolder.store.admin.revokeKey({ ...actor, at: 5 }, "key_alice");
    const second = storeFolder.store.admin.revokeKey({ ...actor, at: 9 }, "key_alice");
    expect([first.applied, second.applied]).toEqual([true, false]);
    expect(second.key.revokedAt).toBe(5);
  });

  test("belongs to the account that was there, or to a new one", () => {
    storeFolder.store.admin.createAccount(actor, "alice", 0n);
    fund(storeFolder.store, "alice", 0n);
    fund(storeFolder.store, "bob", 0n);
    expect(storeFolder.store.keys.list(undefined).map(({ account }) => account)).toEqual([
      "alice",
      "bob",
    ]);
    expect(storeFolder.store.keys.list("bob").map(({ publicId }) => publicId)).toEqual(["key_bob"]);
  });
});

test("the admin log tells who changed what, and nothing of a change that failed or was made before", () => {
  fund(storeFolder.store, "alice", 12n);
  book("credit", 5n, "pay");
  book("credit", 5n, "pay");
  expect(() => book("debit", 99n, "too-much")).toThrow();
  storeFolder.store.admin.setDisabled(actor, "alice", true);
  storeFolder.store.admin.revokeKey(actor, "key_alice");
  storeFolder.store.admin.revokeKey(actor, "key_alice");
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const rows = sqlite
    .query("SELECT actor, command, subject, detail FROM admin_log ORDER BY id")
    .all();
  sqlite.close();
  expect(rows).toEqual([
    { actor: "tester", command: "keys create", subject: "key_alice", detail: "account alice" },
    { actor: "tester", command: "balance credit", subject: "alice", detail: "0.000000012" },
    {
      actor: "tester",
      command: "balance credit",
      subject: "alice",
      detail: "0.000000005 ref pay",
    },
    { actor: "tester", command: "accounts disable", subject: "alice", detail: null },
    { actor: "tester", command: "keys revoke", subject: "key_alice", detail: null },
  ]);
});
