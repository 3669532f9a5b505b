import { Database } from "bun:sqlite";
import { beforeEach, describe, expect, test } from "bun:test";
import type { KeyRow } from "../../src/store/store.ts";
import { hashKey } from "../../src/auth/apiKey.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { rotate } from "../support/store/sampleLedger.ts";
import { actor, costOfEnded, ended, fund, type Owner } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const HOUR_MS = 3_600_000;

const storeFolder = openStoreBefore({ audited: true });
let alice: Owner;
beforeEach(() => {
  alice = fund(storeFolder.store, "alice", 1_000_000n);
});

function key(publicId: string): KeyRow {
  const row = storeFolder.store.keys.find(publicId);
  if (row === undefined) throw new Error(`there is no ${publicId}`);
  return row;
}

const set = (publicId: string, changes: Parameters<typeof storeFolder.store.admin.changeKey>[2]) =>
  storeFolder.store.admin.changeKey(actor, publicId, changes);

const settings = {
  label: "laptop",
  expiresAt: actor.at + 10 * DAY_MS,
  requestsPerMinute: 5,
  tokensPerMinute: 0,
  concurrentRequests: 2,
  models: ["small", "gi*"],
  budget: 7n,
};

describe("a change of a key", () => {
  test("touches nothing but what it names", () => {
    fund(storeFolder.store, "alice", 0n, { name: "other", budget: 3n });
    const other = key("key_other");
    expect(set("key_alice", settings)).toMatchObject(settings);
    expect(set("key_alice", { label: null })).toMatchObject({ ...settings, label: null });
    expect(set("key_alice", { models: null, budget: null })).toMatchObject({
      ...settings,
      label: null,
      models: null,
      budget: null,
    });
    expect(key("key_other")).toEqual(other);
  });

  test("of no key, or of one that is revoked, is refused in words that say what to do", () => {
    expect(() => set("key_x", settings)).toThrow('no key "key_x": tollgate keys list');
    storeFolder.store.admin.revokeKey(actor, "key_alice");
    expect(() => set("key_alice", settings)).toThrow(
      "key key_alice is revoked for ever: tollgate keys create --account alice issues another",
    );
    expect(key("key_alice").budget).toBeNull();
  });

  test("of one that is expired gives it time again", () => {
    set("key_alice", { expiresAt: actor.at });
    expect(set("key_alice", { expiresAt: null }).expiresAt).toBeNull();
  });
});

describe("a rotation", () => {
  test("makes a key with the same settings and the same end; the old one ends with the grace", () => {
    set("key_alice", settings);
    rotate(storeFolder, "key_alice", "key_next", HOUR_MS);
    expect(key("key_next")).toMatchObject({
      ...settings,
      account: "alice",
      createdAt: actor.at,
      revokedAt: null,
      lastUsedAt: null,
    });
    expect(key("key_alice")).toMatchObject({ ...settings, expiresAt: actor.at + HOUR_MS });
    expect(storeFolder.store.keys.findByHash(hashKey("key_next"))?.publicId).toBe("key_next");
  });

  test("never lets the old one live longer than it would have", () => {
    set("key_alice", { expiresAt: actor.at + HOUR_MS });
    rotate(storeFolder, "key_alice", "key_next", DAY_MS);
    expect(key("key_alice").expiresAt).toBe(actor.at + HOUR_MS);
    expect(key("key_next").expiresAt).toBe(actor.at + HOUR_MS);
  });

  test("gives a key without an end one without an end, and ends the old one at once if so asked", () => {
    rotate(storeFolder, "key_alice", "key_next", 0);
    expect([key("key_alice").expiresAt, key("key_next").expiresAt]).toEqual([actor.at, null]);
  });

  test("is refused where a newer key continues it, of whatever state, and where it could not be used", () => {
    rotate(storeFolder, "key_alice", "key_2");
    rotate(storeFolder, "key_2", "key_3");
    for (const old of ["key_alice", "key_2"])
      expect(() => rotate(storeFolder, old, "key_4")).toThrow(
        `key ${old} was rotated before, and key_3 replaces it: tollgate keys rotate key_3`,
      );
    set("key_3", { expiresAt: actor.at });
    expect(() => rotate(storeFolder, "key_3", "key_4")).toThrow(
      "key key_3 is expired: tollgate keys set key_3 --expires 30d lets it live again, then rotate it",
    );
    storeFolder.store.admin.revokeKey(actor, "key_3");
    expect(() => rotate(storeFolder, "key_3", "key_4")).toThrow(
      "key key_3 is revoked for ever: tollgate keys create --account alice issues another",
    );
    expect(() => rotate(storeFolder, "key_2", "key_4")).toThrow(
      "key key_2 was rotated before, and key_3 is revoked for ever: tollgate keys create",
    );
    expect(() => rotate(storeFolder, "key_x", "key_4")).toThrow(
      'no key "key_x": tollgate keys list',
    );
    expect(storeFolder.store.keys.list(undefined)).toHaveLength(3);
  });

  test("of the newest key only sees its own line, also of the same account", () => {
    fund(storeFolder.store, "alice", 0n, { name: "later", budget: null });
    rotate(storeFolder, "key_alice", "key_2");
    rotate(storeFolder, "key_later", "key_3");
    rotate(storeFolder, "key_2", "key_4");
    const lines = storeFolder.store.keys.list("alice").map(({ firstKeyId }) => firstKeyId);
    expect(lines).toEqual([1, 2, 1, 2, 1]);
  });
});

describe("the keys of a line", () => {
  test("have one budget, whichever of them it is set on, however it changes, and whatever became of them", () => {
    const budgets = () => storeFolder.store.keys.list("alice").map(({ budget }) => budget);
    set("key_alice", { budget: 7n });
    rotate(storeFolder, "key_alice", "key_2", 0);
    expect(budgets()).toEqual([7n, 7n]);
    set("key_2", { budget: 5n });
    rotate(storeFolder, "key_2", "key_3");
    expect(budgets()).toEqual([5n, 5n, 5n]);
    set("key_alice", { budget: 3n, label: "first" });
    expect(budgets()).toEqual([3n, 3n, 3n]);
    storeFolder.store.admin.revokeKey(actor, "key_alice");
    set("key_3", { budget: null });
    expect(budgets()).toEqual([null, null, null]);
    set("key_3", { budget: 9n });
    expect(budgets()).toEqual([9n, 9n, 9n]);
    expect(storeFolder.store.keys.list("alice").map(({ label }) => label)).toEqual([
      "first",
      null,
      null,
    ]);
  });

  test("leave the budgets of all other keys alone", () => {
    fund(storeFolder.store, "alice", 0n, { name: "apart", budget: 2n });
    fund(storeFolder.store, "bob", 0n, { name: "bob", budget: 4n });
    rotate(storeFolder, "key_alice", "key_2");
    set("key_2", { budget: 1n });
    expect([key("key_apart").budget, key("key_bob").budget]).toEqual([2n, 4n]);
  });

  test("add up what they spent through rotations, charges, refunds and folding", async () => {
    const charge = (id: string, keyId: number, at: number = actor.at): Promise<void> =>
      storeFolder.record(ended(id, { ...alice, keyId }, { at }));
    const refund = (request: string, amount: bigint) =>
      storeFolder.store.admin.refund(actor, { request, amount, ref: null, note: null });
    const long = actor.at - 5 * DAY_MS;
    const spent = () => storeFolder.store.keys.list("alice").map(({ spent }) => spent);

    await charge("req_1", alice.keyId, long);
    const second = rotate(storeFolder, "key_alice", "key_2");
    await charge("req_2", second, long);
    await charge("req_3", alice.keyId);
    refund("req_1", 100n);
    refund("req_2", 200n);
    const third = rotate(storeFolder, "key_2", "key_3");
    await charge("req_4", third);
    refund("req_4", 300n);
    expect(spent()).toEqual(Array<bigint>(3).fill(4n * costOfEnded - 600n));
    expect(storeFolder.store.audit().problems).toEqual([]);
    expect(
      await storeFolder.writer.write({ kind: "fold", before: actor.at - DAY_MS }),
    ).toMatchObject({
      folded: 2,
    });
    await charge("req_5", second);
    refund("req_3", 400n);
    expect(spent()).toEqual(Array<bigint>(3).fill(5n * costOfEnded - 1000n));
    expect(storeFolder.store.usage("key", {})).toMatchObject([
      { group: "key_2", requests: 2 },
      { group: "key_3", requests: 1 },
      { group: "key_alice", requests: 2 },
    ]);
  });
});

test("the admin log tells what was set and which key continues which, and never a secret", () => {
  set("key_alice", settings);
  set("key_alice", { label: null, models: null, expiresAt: null, budget: null });
  rotate(storeFolder, "key_alice", "key_next", HOUR_MS);
  expect(() => rotate(storeFolder, "key_alice", "key_4")).toThrow();
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const rows = sqlite.query("SELECT command, subject, detail FROM admin_log").all();
  sqlite.close();
  expect(rows.slice(-3)).toEqual([
    {
      command: "keys set",
      subject: "key_alice",
      detail:
        "label laptop, expires 2026-01-11T00:00:00.000Z, rpm 5, tpm 0, concurrent 2, models small,gi*, budget 0.000000007",
    },
    {
      command: "keys set",
      subject: "key_alice",
      detail: "label none, expires none, models none, budget none",
    },
    {
      command: "keys rotate",
      subject: "key_alice",
      detail: "to key_next, grace until 2026-01-01T01:00:00.000Z",
    },
  ]);
});
