import { describe, expect, test } from "bun:test";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { actor, ended, fund, running, unbilled, type Owner } from "../support/store/storeFolder.ts";

describeStores("requests:", (current) => {
  test("a request with one attempt that succeeded shows it from its own row", async () => {
    const alice = await current.fund("alice", 1_000_000n);
    const ok = { provider: "local", outcome: "ok", status: 200, durationMs: 357 };
    const failed = { provider: "local", outcome: "timeout", status: null, durationMs: 9 };
    const rows = new Map([
      ["req_ok", ended("req_ok", alice, { attempts: [ok] })],
      ["req_failover", ended("req_failover", alice, { attempts: [failed, ok] })],
      ["req_failed", ended("req_failed", alice, { ...unbilled, attempts: [failed] })],
      ["req_none", ended("req_none", alice, { ...unbilled, attempts: [] })],
      ["req_running", running("req_running", alice)],
    ]);
    for (const record of rows.values()) await current.record(record);
    for (const [id, { attempts }] of rows)
      expect([id, ...(await current.store.requests.attempts(id))]).toEqual([id, ...attempts]);
    expect(await current.rows("SELECT count(*) AS count FROM attempts")).toEqual([{ count: 3n }]);
  });

  test("a receipt is only for the account of its request", async () => {
    const alice = await current.fund("alice", 1_000_000n);
    const bob = await current.fund("bob", 1_000_000n);
    await current.record(ended("req_1", alice));
    const { requests } = current.store;
    const found = await requests.find("req_1");
    expect(found).toMatchObject({ id: "req_1", account: "alice", key: "key_alice", refunded: 0n });
    expect(await requests.receipt(alice.accountId, "req_1")).toEqual(found);
    expect(await requests.receipt(bob.accountId, "req_1")).toBeUndefined();
    expect(await requests.receipt(alice.accountId, "req_2")).toBeUndefined();
  });

  test("the newest request up to a time is found by its admission", async () => {
    const alice = await current.fund("alice", 1_000_000n);
    for (const [id, at] of [
      ["req_2", 20],
      ["req_1", 10],
      ["req_3", 30],
    ] as const)
      await current.record(ended(id, alice, { at: actor.at + at }));
    const { requests } = current.store;
    const newest = async (at: number) => await requests.newestAt(actor.at + at);
    expect(await newest(9)).toBeUndefined();
    expect(await newest(20)).toBe(actor.at + 20);
    expect(await newest(29)).toBe(actor.at + 20);
    expect(await newest(99)).toBe(actor.at + 30);
  });
});

describe("on SQLite a start", () => {
  const storeFolder = openStoreBefore({ audited: true });

  test("interrupts and counts the requests that an earlier run left, and releases its reserves", async () => {
    const { store } = storeFolder;
    const alice = await fund(store, "alice", 1_000_000n);
    // More than 64 bits together.
    const rich = 4_000_000_000_000_000_000n;
    const others: Owner[] = [];
    for (const name of ["bob", "carol", "dave"]) others.push(await fund(store, name, rich));
    const [bob = alice] = others;
    await storeFolder.record(ended("req_1", alice));
    await storeFolder.record(running("req_2", alice));
    await storeFolder.record(running("req_3", bob, { model: "large" }));
    await storeFolder.reserve(alice.accountId, 70_000n);
    for (const { accountId } of others) await storeFolder.reserve(accountId, rich);
    const reserved = async () => (await store.accounts.list()).map((account) => account.reserved);
    expect(await reserved()).toEqual([70_000n, rich, rich, rich]);
    expect(store.interruptRunning()).toEqual({ count: 2, reserved: 3n * rich + 70_000n });
    expect(store.interruptRunning()).toEqual({ count: 0, reserved: 0n });
    expect(await reserved()).toEqual([0n, 0n, 0n, 0n]);
    expect((await store.requests.list({}, { limit: 9 })).rows.map(({ status }) => status)).toEqual([
      "interrupted",
      "interrupted",
      "done",
    ]);
    expect(await store.usage.by("model", {})).toMatchObject([
      { group: "large", requests: 1, failed: 1, cost: 0n },
      { group: "small", requests: 2, failed: 1 },
    ]);
  });
});
