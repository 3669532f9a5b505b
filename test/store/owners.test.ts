import { beforeEach, describe, expect, test } from "bun:test";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import { fund } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const now = Date.now();
const past = now - 60_000;
const future = now + 3_600_000;

const storeFolder = openStoreBefore({ audited: false });
let alice: number;
let bob: number;
beforeEach(() => {
  alice = fund(storeFolder.store, "alice", 0n).accountId;
  bob = fund(storeFolder.store, "bob", 0n).accountId;
});

function hashOf(id: string): Uint8Array {
  return new Uint8Array(Bun.SHA256.hash(id).buffer);
}

async function own(
  id: string,
  accountId: number,
  provider: string,
  { expiresAt = future, at = now } = {},
) {
  const object = { hash: hashOf(id), accountId, provider, expiresAt, historyTokens: 0 };
  await storeFolder.writer.write({ kind: "recordOwners", objects: [object], at });
}

/** The provider to which each of the accounts may come with the id. */
function owners(id: string, at = now): Record<"alice" | "bob", string | undefined> {
  const find = (accountId: number) =>
    storeFolder.store.owners.find(hashOf(id), accountId, at)?.provider;
  return { alice: find(alice), bob: find(bob) };
}

const nobody = { alice: undefined, bob: undefined };

function rowCount(): number {
  const { sqlite } = connect(storeFolder.path, "process");
  const row = sqlite.query<{ n: bigint }, []>("SELECT count(*) AS n FROM response_owner").get();
  sqlite.close();
  return Number(row?.n);
}

describe("an object of a provider belongs to", () => {
  test("the account that it was made for, until it expires", async () => {
    await own("resp_1", alice, "first");
    expect(owners("resp_1")).toEqual({ alice: "first", bob: undefined });
    expect(owners("resp_1", future)).toEqual(nobody);
  });

  test("the account, each of many that are recorded at once", async () => {
    const objects = ["resp_1", "resp_2"].map((id) => {
      return {
        hash: hashOf(id),
        accountId: alice,
        provider: "first",
        expiresAt: future,
        historyTokens: 0,
      };
    });
    await storeFolder.writer.write({ kind: "recordOwners", objects, at: now });
    expect([owners("resp_1").alice, owners("resp_2").alice]).toEqual(["first", "first"]);
  });

  test("the same account on, with the provider and the expiry of the latest time", async () => {
    await own("resp_1", alice, "first");
    await own("resp_1", alice, "second", { expiresAt: future + 1000 });
    expect(owners("resp_1", future)).toEqual({ alice: "second", bob: undefined });
  });

  test("another account, once it has expired for the first", async () => {
    await own("resp_other", alice, "first");
    await own("resp_1", alice, "first", { expiresAt: past });
    await own("resp_1", bob, "second");
    expect(owners("resp_1", past - 1)).toEqual({ alice: undefined, bob: "second" });
  });

  test("another account, once it has expired by the clock of the gateway, even if the machine's clock is late", async () => {
    await own("resp_other", alice, "first");
    await own("resp_1", alice, "first");
    await own("resp_1", bob, "second", { expiresAt: future + 1000, at: future });
    expect(owners("resp_1", future)).toEqual({ alice: undefined, bob: "second" });
  });

  test("no account, when a provider gives the same id to two accounts", async () => {
    await own("resp_1", alice, "first");
    await own("resp_1", bob, "first");
    expect(owners("resp_1")).toEqual(nobody);
    await own("resp_1", bob, "first");
    expect(owners("resp_1")).toEqual(nobody);
    await own("resp_1", alice, "first");
    expect(owners("resp_1")).toEqual(nobody);
    expect(owners("resp_1", 0)).toEqual(nobody);
  });

  test("another account, once it has expired for the two that a provider gave it to", async () => {
    await own("resp_1", alice, "first");
    await own("resp_1", bob, "first");
    await own("resp_1", bob, "second", { expiresAt: future + 1000, at: future });
    expect(owners("resp_1", future)).toEqual({ alice: undefined, bob: "second" });
  });
});

test("what has expired is removed while objects are recorded, and nothing else", async () => {
  await own("resp_kept", alice, "first");
  const expired = Array.from({ length: 400 }, (_, index) => `resp_expired_${index}`);
  await Promise.all(expired.map((id) => own(id, alice, "first", { expiresAt: past })));
  await own("resp_disputed", alice, "first");
  await own("resp_disputed", bob, "first");
  for (let index = 0; index < 400; index += 1) await own("resp_again", bob, "first");
  expect(rowCount()).toBe(3);
  expect(owners("resp_kept")).toEqual({ alice: "first", bob: undefined });
  expect(owners("resp_disputed")).toEqual(nobody);
});
