import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import type { RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { actor, ended, fund, running, unbilled } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const storeFolder = openStoreBefore({ audited: true });

/** The ids of all rows, newest first. */
function rowOrder(): string[] {
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const rows = sqlite.query<{ id: string }, []>(
    "SELECT public_id AS id FROM requests ORDER BY requests.id DESC",
  );
  const ids = rows.all().map(({ id }) => id);
  sqlite.close();
  return ids;
}

test("a list has the newest requests that match, whatever order they ended in", async () => {
  const { below, chance, pick } = seededRandom(11);
  const { store } = storeFolder;
  const owners = [
    fund(store, "alice", 1_000_000_000n),
    fund(store, "alice", 0n, { name: "other", budget: null }),
    fund(store, "bob", 1_000_000_000n),
  ];
  const open: RequestRecord[] = [];
  for (let n = 0; n < 300; n += 1) {
    const request = {
      at: actor.at + n * 1000,
      model: pick(["small", "large"]),
      stream: chance(0.5),
    };
    const bill = pick([
      {},
      {},
      {},
      { status: "cancelled" },
      { ...unbilled, status: "cancelled" },
      unbilled,
    ] as const);
    const owner = pick(owners);
    const record = ended(`req_${n}`, owner, { ...request, ...bill });
    if (chance(0.3)) {
      await storeFolder.record(running(record.publicId, owner, request));
      open.push(record);
    } else await storeFolder.record(record);
    // Requests with a row of their own end much later, and some never.
    const late = open[below(open.length + 1)];
    if (late === undefined || chance(0.3)) continue;
    await storeFolder.record(late);
    open.splice(open.indexOf(late), 1);
  }

  const all = store.requests.list({ limit: 1000 });
  expect(all.map(({ id }) => id)).toEqual(rowOrder());
  expect(new Set(all.map(({ status }) => status)).size).toBe(4);
  const some = <T>(...values: readonly T[]) => [undefined, ...values];
  for (const account of some("alice", "bob"))
    for (const status of some(...requestStatuses))
      for (const key of some("key_alice", "key_other", "key_bob"))
        for (const model of some("small"))
          for (const since of some(actor.at + 150_000))
            for (const limit of [3, 20, 1000]) {
              const filter = { account, status, key, model, since, limit };
              const expected = all.filter(
                (row) =>
                  (account ?? row.account) === row.account &&
                  (status ?? row.status) === row.status &&
                  (key ?? row.key) === row.key &&
                  (model ?? row.model) === row.model &&
                  (since ?? 0) <= row.at,
              );
              expect({ filter, rows: store.requests.list(filter) }).toEqual({
                filter,
                rows: expected.slice(0, limit),
              });
            }
}, 60_000);

test("a request with one attempt that succeeded shows it from its own row", async () => {
  const alice = fund(storeFolder.store, "alice", 1_000_000n);
  const ok = { provider: "local", outcome: "ok", status: 200, durationMs: 357 };
  const failed = { provider: "local", outcome: "timeout", status: null, durationMs: 9 };
  const rows = new Map([
    ["req_ok", ended("req_ok", alice, { attempts: [ok] })],
    ["req_failover", ended("req_failover", alice, { attempts: [failed, ok] })],
    ["req_failed", ended("req_failed", alice, { ...unbilled, attempts: [failed] })],
    ["req_none", ended("req_none", alice, { ...unbilled, attempts: [] })],
    ["req_running", running("req_running", alice)],
  ]);
  for (const record of rows.values()) await storeFolder.record(record);
  for (const [id, { attempts }] of rows)
    expect([id, ...storeFolder.store.requests.attempts(id)]).toEqual([id, ...attempts]);
  const sqlite = new Database(storeFolder.path, { readonly: true });
  expect(sqlite.query("SELECT count(*) AS rows FROM attempts").get()).toEqual({ rows: 3 });
  sqlite.close();
});

test("what an earlier run left: requests are interrupted and counted, reserves are released", async () => {
  const { store } = storeFolder;
  const alice = fund(store, "alice", 1_000_000n);
  // More than 64 bits together.
  const rich = 4_000_000_000_000_000_000n;
  const others = ["bob", "carol", "dave"].map((name) => fund(store, name, rich));
  const [bob = alice] = others;
  await storeFolder.record(ended("req_1", alice));
  await storeFolder.record(running("req_2", alice));
  await storeFolder.record(running("req_3", bob, { model: "large" }));
  await storeFolder.reserve(alice.accountId, 70_000n);
  for (const { accountId } of others) await storeFolder.reserve(accountId, rich);
  const reserved = () => store.accounts.list().map((account) => account.reserved);
  expect(reserved()).toEqual([70_000n, rich, rich, rich]);
  expect(store.interruptRunning()).toEqual({ count: 2, reserved: 3n * rich + 70_000n });
  expect(store.interruptRunning()).toEqual({ count: 0, reserved: 0n });
  expect(reserved()).toEqual([0n, 0n, 0n, 0n]);
  expect(store.requests.list({ limit: 9 }).map(({ status }) => status)).toEqual([
    "interrupted",
    "interrupted",
    "done",
  ]);
  expect(store.usage("model", {})).toMatchObject([
    { group: "large", requests: 1, failed: 1, cost: 0n },
    { group: "small", requests: 2, failed: 1 },
  ]);
});
