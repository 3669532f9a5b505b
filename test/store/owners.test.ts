import { beforeEach, describe, expect, test } from "bun:test";
import { describeStores } from "../support/store/storeOnEngines.ts";

const now = Date.now();
const past = now - 60_000;
const future = now + 3_600_000;

function hashOf(id: string): Uint8Array {
  return new Uint8Array(Bun.SHA256.hash(id).buffer);
}

const nobody = { alice: undefined, bob: undefined };

describeStores("owners:", (current) => {
  let alice: number;
  let bob: number;
  beforeEach(async () => {
    alice = (await current.fund("alice", 0n)).accountId;
    bob = (await current.fund("bob", 0n)).accountId;
  });

  async function own(
    id: string,
    accountId: number,
    provider: string,
    { expiresAt = future, at = now } = {},
  ) {
    const object = { hash: hashOf(id), accountId, provider, expiresAt, historyTokens: 0 };
    await current.writer.write({ kind: "recordOwners", objects: [object], at });
  }

  /** The provider to which each of the accounts may come with the id. */
  async function owners(
    id: string,
    at = now,
  ): Promise<Record<"alice" | "bob", string | undefined>> {
    const find = async (accountId: number) =>
      (await current.store.owners.find(hashOf(id), accountId, at))?.provider;
    return { alice: await find(alice), bob: await find(bob) };
  }

  describe("an object of a provider belongs to", () => {
    test("the account that it was made for, until it expires", async () => {
      await own("resp_1", alice, "first");
      expect(await owners("resp_1")).toEqual({ alice: "first", bob: undefined });
      expect(await owners("resp_1", future)).toEqual(nobody);
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
      await current.writer.write({ kind: "recordOwners", objects, at: now });
      for (const id of ["resp_1", "resp_2"]) expect((await owners(id)).alice).toBe("first");
    });

    test("the same account on, with the provider and the expiry of the latest time", async () => {
      await own("resp_1", alice, "first");
      await own("resp_1", alice, "second", { expiresAt: future + 1000 });
      expect(await owners("resp_1", future)).toEqual({ alice: "second", bob: undefined });
    });

    test("another account, once it has expired for the first", async () => {
      await own("resp_other", alice, "first");
      await own("resp_1", alice, "first", { expiresAt: past });
      await own("resp_1", bob, "second");
      expect(await owners("resp_1", past - 1)).toEqual({ alice: undefined, bob: "second" });
    });

    test("another account, once it has expired by the clock of the gateway, even if the machine's clock is late", async () => {
      await own("resp_other", alice, "first");
      await own("resp_1", alice, "first");
      await own("resp_1", bob, "second", { expiresAt: future + 1000, at: future });
      expect(await owners("resp_1", future)).toEqual({ alice: undefined, bob: "second" });
    });

    test("no account, when a provider gives the same id to two accounts", async () => {
      await own("resp_1", alice, "first");
      await own("resp_1", bob, "first");
      expect(await owners("resp_1")).toEqual(nobody);
      await own("resp_1", bob, "first");
      expect(await owners("resp_1")).toEqual(nobody);
      await own("resp_1", alice, "first");
      expect(await owners("resp_1")).toEqual(nobody);
      expect(await owners("resp_1", 0)).toEqual(nobody);
    });

    test("another account, once it has expired for the two that a provider gave it to", async () => {
      await own("resp_1", alice, "first");
      await own("resp_1", bob, "first");
      await own("resp_1", bob, "second", { expiresAt: future + 1000, at: future });
      expect(await owners("resp_1", future)).toEqual({ alice: undefined, bob: "second" });
    });
  });

  test("what has expired is removed while objects are recorded, and nothing else", async () => {
    await own("resp_kept", alice, "first");
    const times = Array.from({ length: 400 }, (_, index) => index);
    await Promise.all(
      times.map((index) => own(`resp_expired_${index}`, alice, "first", { expiresAt: past })),
    );
    await own("resp_disputed", alice, "first");
    await own("resp_disputed", bob, "first");
    await Promise.all(times.map(() => own("resp_again", bob, "first")));
    expect(await current.rows("SELECT count(*) AS count FROM response_owner")).toEqual([
      { count: 3n },
    ]);
    expect(await owners("resp_kept")).toEqual({ alice: "first", bob: undefined });
    expect(await owners("resp_disputed")).toEqual(nobody);
  });
});
