import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import type { PageFilter, PagePosition, RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import {
  actor,
  ended,
  fund,
  recordMany,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const storeFolder = openStoreBefore({ audited: true });

interface Row {
  readonly id: string;
  readonly status: string;
  readonly model: string;
}

/** All requests of an account, newest row first. */
function rowsOf({ accountId }: Owner): Row[] {
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const rows = sqlite
    .query<Row, [number]>(
      "SELECT public_id AS id, status, model FROM requests WHERE account_id = ? ORDER BY requests.id DESC",
    )
    .all(accountId);
  sqlite.close();
  return rows;
}

const everything = { status: undefined, model: undefined };

function readPage({ accountId }: Owner, filter: PageFilter, after?: PagePosition) {
  const steps = storeFolder.store.requestsOfAccount(accountId, filter, after);
  for (;;) {
    const step = steps.next();
    if (step.done !== true) continue;
    if (step.value === undefined) throw new Error("the position is unknown");
    return step.value;
  }
}

/** The ids of all pages. `between` runs between two pages. */
async function allPages(
  owner: Owner,
  filter: () => PageFilter,
  between = async (): Promise<void> => {},
): Promise<string[]> {
  const ids: string[] = [];
  for (let after: PagePosition | undefined; ; await between()) {
    const { limit, ...others } = filter();
    const { rows, next } = readPage(owner, { limit, ...others }, after);
    ids.push(...rows.map(({ id }) => id));
    if (next === undefined) return ids;
    expect(rows).toHaveLength(limit);
    after = next;
  }
}

test("the pages of a list have all requests that match, newest first, whatever order they ended in", async () => {
  const { below, chance, pick } = seededRandom(5);
  const { store } = storeFolder;
  const alice = fund(store, "alice", 10n ** 9n);
  const owners = [
    alice,
    fund(store, "alice", 0n, { name: "other", budget: null }),
    fund(store, "bob", 10n ** 9n),
  ];
  const open: RequestRecord[] = [];
  for (let n = 0; n < 400; n += 1) {
    const request = { at: actor.at + n * 1000, model: pick(["small", "large"]) };
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
  const all = rowsOf(alice);
  for (const status of [undefined, ...requestStatuses])
    for (const model of [undefined, "small", "none"]) {
      const expected = all.filter(
        (row) => row.status === (status ?? row.status) && row.model === (model ?? row.model),
      );
      for (const limit of [1, 7, 20, 100]) {
        const filter = { status, model, limit };
        const ids = await allPages(alice, () => filter);
        expect({ filter, ids }).toEqual({ filter, ids: expected.map(({ id }) => id) });
      }
    }
}, 60_000);

test("pages have each request once while others arrive and end, over thousands of charges", async () => {
  const { below, chance, pick } = seededRandom(7);
  const alice = fund(storeFolder.store, "alice", 10n ** 12n);
  const open: RequestRecord[] = [];
  let count = 0;
  const more = async (most: number) => {
    const ids = Array.from({ length: below(most) }, () => `req_${(count += 1)}`);
    await recordMany(storeFolder, alice, ids);
  };
  /** Opens or ends a request that has its row before it ends. */
  const openOrEnd = async () => {
    const record = ended(`req_${(count += 1)}`, alice, chance(0.3) ? unbilled : {});
    await storeFolder.record(running(record.publicId, alice));
    open.push(record);
    const late = open[below(2 * open.length)];
    if (late === undefined) return;
    await storeFolder.record(late);
    open.splice(open.indexOf(late), 1);
  };
  for (let round = 0; round < 60; round += 1) {
    await more(100);
    await openOrEnd();
  }
  const expected = rowsOf(alice).map(({ id }) => id);
  expect(expected.length).toBeGreaterThan(2500);
  const listed = await allPages(
    alice,
    () => ({ ...everything, limit: pick([1, 20, 50, 100]) }),
    async () => {
      if (chance(0.3)) await more(30);
      if (chance(0.5)) await openOrEnd();
    },
  );
  expect(listed).toEqual(expected);
}, 60_000);

test("more open requests at once than expected change their order, and none is lost or twice", async () => {
  const alice = fund(storeFolder.store, "alice", 10n ** 12n);
  const many = (prefix: string, length: number) =>
    Array.from({ length }, (_, at) => `req_${prefix}${at}`);
  const long = many("long", 1500);
  const { writer } = storeFolder;
  const records = long.map((id) => running(id, alice));
  await Promise.all(records.map((record) => writer.write({ kind: "recordRequest", record })));
  const short = many("short", 300);
  await recordMany(storeFolder, alice, short);
  await recordMany(storeFolder, alice, long.slice(0, 700));
  for (const id of many("cancelled", 150))
    await storeFolder.record(ended(id, alice, { status: "cancelled" }));
  await recordMany(storeFolder, alice, long.slice(700));
  const listed = await allPages(alice, () => ({ ...everything, limit: 100 }));
  const expected = [...long, ...short, ...many("cancelled", 150)];
  expect(listed.length).toBe(expected.length);
  expect(listed.toSorted()).toEqual(expected.toSorted());
}, 60_000);

test("a request that is folded between two pages is left out, and the list goes on", async () => {
  const alice = fund(storeFolder.store, "alice", 10n ** 9n);
  const ids = Array.from({ length: 10 }, (_, at) => `req_${at}`);
  for (const [at, id] of ids.entries())
    await storeFolder.record(ended(id, alice, { at: actor.at + at }));
  const filter = { ...everything, limit: 4 };
  const { rows, next } = readPage(alice, filter);
  await storeFolder.writer.write({ kind: "fold", before: actor.at + 3 });
  const later = readPage(alice, filter, next);
  expect([...rows, ...later.rows].map(({ id }) => id)).toEqual(ids.slice(3).toReversed());
  expect(later.next).toBeUndefined();
});

test("what ends while a page is read is in it once, as it was asked for", async () => {
  const alice = fund(storeFolder.store, "alice", 10n ** 9n);
  const open = ["req_1", "req_2", "req_3"];
  for (const id of open) await storeFolder.record(running(id, alice));
  const begin = (status?: "running" | "failed") =>
    storeFolder.store.requestsOfAccount(
      alice.accountId,
      { ...everything, status, limit: 9 },
      undefined,
    );
  const lists = [begin(), begin("running"), begin("failed")];
  for (const list of lists) expect(list.next().done).toBeOneOf([false, true]);
  await storeFolder.record(ended("req_1", alice, unbilled));
  await storeFolder.record(ended("req_2", alice));
  await storeFolder.record(ended("req_4", alice));
  const read = (list: (typeof lists)[number] | undefined) => {
    for (;;) {
      const step = list?.next();
      if (step?.done === true) return step.value?.rows.map(({ id, status }) => `${id} ${status}`);
    }
  };
  expect(read(lists[0])).toEqual(["req_3 running", "req_2 done", "req_1 failed"]);
  expect(read(begin("running"))).toEqual(["req_3 running"]);
  expect(read(begin())).toEqual(["req_4 done", "req_3 running", "req_2 done", "req_1 failed"]);
});

test("a list by a model that is rare among thousands of charges has all of them, folded or not", async () => {
  const alice = fund(storeFolder.store, "alice", 10n ** 12n);
  let count = 0;
  const more = () =>
    recordMany(
      storeFolder,
      alice,
      Array.from({ length: 1500 }, () => `req_${(count += 1)}`),
    );
  const rare: string[] = [];
  const one = async (changes: Partial<RequestRecord> = {}) => {
    const id = `req_rare${rare.length}`;
    rare.unshift(id);
    await storeFolder.record(ended(id, alice, { model: "rare", ...changes }));
  };
  await one({ at: actor.at - 1 });
  await one({ at: actor.at - 1 });
  await more();
  await one({ status: "cancelled" });
  await more();
  await one(unbilled);
  await more();
  await one();
  await more();
  const filter = { ...everything, model: "rare" };
  const limits = [1, 2, 3, 20];
  for (const limit of limits)
    expect(await allPages(alice, () => ({ ...filter, limit }))).toEqual(rare);
  const steps = (model: string) => {
    const page = { ...everything, model, limit: 20 };
    return [...storeFolder.store.requestsOfAccount(alice.accountId, page, undefined)].length;
  };
  expect(steps("never")).toBeLessThan(15);
  expect(steps("rare")).toBeGreaterThan(20);
  await storeFolder.writer.write({ kind: "fold", before: actor.at });
  for (const limit of limits)
    expect(await allPages(alice, () => ({ ...filter, limit }))).toEqual(rare.slice(0, -2));
}, 60_000);

test("a position with invented numbers reads no more than the account's charges", async () => {
  const alice = fund(storeFolder.store, "alice", 10n ** 9n);
  await recordMany(storeFolder, alice, ["req_1", "req_2", "req_3"]);
  const far = 999_999_999_999_999;
  const filter = { ...everything, limit: 1 };
  for (const leftFrom of [0, 1, far])
    for (const scannedTo of [0, far])
      for (const newest of [0, far]) {
        const after = { id: "req_3", newest, leftFrom, scannedTo };
        const list = storeFolder.store.requestsOfAccount(alice.accountId, filter, after);
        let steps = 0;
        while (list.next().done !== true && steps < 100) steps += 1;
        expect({ after, isLong: steps === 100 }).toEqual({ after, isLong: false });
      }
});
