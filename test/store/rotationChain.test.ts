import { beforeEach, describe, expect, test } from "bun:test";
import type { KeyChanges, KeyRow } from "../../src/store/store.ts";
import { hashKey } from "../../src/auth/apiKey.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { actor, costOfEnded, ended, type Owner } from "../support/store/storeFolder.ts";

const HOUR_MS = 3_600_000;

const settings = {
  label: "laptop",
  expiresAt: actor.at + 10 * DAY_MS,
  requestsPerMinute: 5,
  tokensPerMinute: 0,
  concurrentRequests: 2,
  models: ["small", "gi*"],
  budget: 7n,
};

describeStores("keys and their rotation chains:", (current) => {
  let alice: Owner;
  beforeEach(async () => {
    alice = await current.fund("alice", 1_000_000n);
  });

  async function key(publicId: string): Promise<KeyRow> {
    const row = await current.store.keys.find(publicId);
    if (row === undefined) throw new Error(`there is no ${publicId}`);
    return row;
  }

  async function set(publicId: string, changes: KeyChanges): Promise<KeyRow> {
    return await current.store.admin.changeKey(actor, publicId, changes);
  }

  /** What each key of alice has there, oldest first. */
  async function ofEach<Name extends keyof KeyRow>(name: Name): Promise<KeyRow[Name][]> {
    return (await current.store.keys.list("alice")).map((row) => row[name]);
  }

  describe("a change of a key", () => {
    test("touches nothing but what it names", async () => {
      await current.fund("alice", 0n, { name: "other", budget: 3n });
      const other = await key("key_other");
      expect(await set("key_alice", settings)).toMatchObject(settings);
      expect(await set("key_alice", { label: null })).toMatchObject({ ...settings, label: null });
      expect(await set("key_alice", { models: null, budget: null })).toMatchObject({
        ...settings,
        label: null,
        models: null,
        budget: null,
      });
      expect(await key("key_other")).toEqual(other);
    });

    test("of no key, or of one that is revoked, is refused in words that say what to do", async () => {
      expect(set("key_x", settings)).rejects.toThrow('no key "key_x": tollgate keys list');
      await current.store.admin.revokeKey(actor, "key_alice");
      expect(set("key_alice", settings)).rejects.toThrow(
        "key key_alice is revoked for ever: tollgate keys create --account alice issues another",
      );
      expect((await key("key_alice")).budget).toBeNull();
    });

    test("of one that is expired gives it time again", async () => {
      await set("key_alice", { expiresAt: actor.at });
      expect((await set("key_alice", { expiresAt: null })).expiresAt).toBeNull();
    });
  });

  describe("a rotation", () => {
    test("makes a key with the same settings and the same end; the old one ends with the grace", async () => {
      await set("key_alice", settings);
      await current.rotate("key_alice", "key_next", HOUR_MS);
      expect(await key("key_next")).toMatchObject({
        ...settings,
        account: "alice",
        createdAt: actor.at,
        revokedAt: null,
        lastUsedAt: null,
        firstAddress: null,
        lastAddress: null,
      });
      expect(await key("key_alice")).toMatchObject({ ...settings, expiresAt: actor.at + HOUR_MS });
      const byHash = await current.store.keys.findByHash(hashKey("key_next"));
      expect(byHash?.publicId).toBe("key_next");
    });

    test("never lets the old one live longer than it would have", async () => {
      await set("key_alice", { expiresAt: actor.at + HOUR_MS });
      await current.rotate("key_alice", "key_next", DAY_MS);
      expect(await ofEach("expiresAt")).toEqual([actor.at + HOUR_MS, actor.at + HOUR_MS]);
    });

    test("gives a key without an end one without an end, and ends the old one at once if so asked", async () => {
      await current.rotate("key_alice", "key_next", 0);
      expect(await ofEach("expiresAt")).toEqual([actor.at, null]);
    });

    test("is refused where a newer key continues it, of whatever state, and where it could not be used", async () => {
      await current.rotate("key_alice", "key_2");
      await current.rotate("key_2", "key_3");
      for (const old of ["key_alice", "key_2"])
        expect(current.rotate(old, "key_4")).rejects.toThrow(
          `key ${old} was rotated before, and key_3 replaces it: tollgate keys rotate key_3`,
        );
      await set("key_3", { expiresAt: actor.at });
      expect(current.rotate("key_3", "key_4")).rejects.toThrow(
        "key key_3 is expired: tollgate keys set key_3 --expires 30d lets it live again, then rotate it",
      );
      await current.store.admin.revokeKey(actor, "key_3");
      expect(current.rotate("key_3", "key_4")).rejects.toThrow(
        "key key_3 is revoked for ever: tollgate keys create --account alice issues another",
      );
      expect(current.rotate("key_2", "key_4")).rejects.toThrow(
        "key key_2 was rotated before, and key_3 is revoked for ever: tollgate keys create",
      );
      expect(current.rotate("key_x", "key_4")).rejects.toThrow(
        'no key "key_x": tollgate keys list',
      );
      expect(await current.store.keys.list(undefined)).toHaveLength(3);
    });

    test("of the newest key only sees its own line, also of the same account", async () => {
      const later = await current.fund("alice", 0n, { name: "later", budget: null });
      await current.rotate("key_alice", "key_2");
      await current.rotate("key_later", "key_3");
      await current.rotate("key_2", "key_4");
      const [one, other] = [alice.keyId, later.keyId];
      expect(await ofEach("firstKeyId")).toEqual([one, other, one, other, one]);
    });
  });

  describe("the keys of a line", () => {
    test("have one budget, whichever of them it is set on, however it changes, and whatever became of them", async () => {
      await set("key_alice", { budget: 7n });
      await current.rotate("key_alice", "key_2", 0);
      expect(await ofEach("budget")).toEqual([7n, 7n]);
      await set("key_2", { budget: 5n });
      await current.rotate("key_2", "key_3");
      expect(await ofEach("budget")).toEqual([5n, 5n, 5n]);
      await set("key_alice", { budget: 3n, label: "first" });
      expect(await ofEach("budget")).toEqual([3n, 3n, 3n]);
      await current.store.admin.revokeKey(actor, "key_alice");
      await set("key_3", { budget: null });
      expect(await ofEach("budget")).toEqual([null, null, null]);
      await set("key_3", { budget: 9n });
      expect(await ofEach("budget")).toEqual([9n, 9n, 9n]);
      expect(await ofEach("label")).toEqual(["first", null, null]);
    });

    test("leave the budgets of all other keys alone", async () => {
      await current.fund("alice", 0n, { name: "apart", budget: 2n });
      await current.fund("bob", 0n, { name: "bob", budget: 4n });
      await current.rotate("key_alice", "key_2");
      await set("key_2", { budget: 1n });
      expect((await key("key_apart")).budget).toBe(2n);
      expect((await key("key_bob")).budget).toBe(4n);
    });

    test("add up what they spent through rotations, charges, refunds and folding", async () => {
      const charge = (id: string, keyId: number, at: number = actor.at): Promise<void> =>
        current.record(ended(id, { ...alice, keyId }, { at }));
      const refund = async (request: string, amount: bigint) =>
        await current.store.admin.refund(actor, { request, amount, ref: null, note: null });
      const long = actor.at - 5 * DAY_MS;

      await charge("req_1", alice.keyId, long);
      const second = await current.rotate("key_alice", "key_2");
      await charge("req_2", second, long);
      await charge("req_3", alice.keyId);
      await refund("req_1", 100n);
      await refund("req_2", 200n);
      const third = await current.rotate("key_2", "key_3");
      await charge("req_4", third);
      await refund("req_4", 300n);
      expect(await ofEach("spent")).toEqual(Array<bigint>(3).fill(4n * costOfEnded - 600n));
      expect(await current.writer.write({ kind: "fold", before: actor.at - DAY_MS })).toMatchObject(
        { folded: 2 },
      );
      await charge("req_5", second);
      await refund("req_3", 400n);
      expect(await ofEach("spent")).toEqual(Array<bigint>(3).fill(5n * costOfEnded - 1000n));
      expect(await current.store.usage.by("key", {})).toMatchObject([
        { group: "key_2", requests: 2 },
        { group: "key_3", requests: 1 },
        { group: "key_alice", requests: 2 },
      ]);
    });
  });

  test("the admin log tells what was set and which key continues which, and never a secret", async () => {
    await set("key_alice", settings);
    await set("key_alice", { label: null, models: null, expiresAt: null, budget: null });
    await current.rotate("key_alice", "key_next", HOUR_MS);
    expect(current.rotate("key_alice", "key_4")).rejects.toThrow();
    expect((await current.adminLog()).slice(-3)).toMatchObject([
      {
        subject: "key_alice",
        detail:
          "label laptop, expires 2026-01-11T00:00:00.000Z, rpm 5, tpm 0, concurrent 2, models small,gi*, budget 0.000000007",
      },
      {
        subject: "key_alice",
        detail: "label none, expires none, models none, budget none",
      },
      {
        subject: "key_alice",
        detail: "to key_next, grace until 2026-01-01T01:00:00.000Z",
      },
    ]);
  });
});
