import { expect, test } from "bun:test";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import { runAsync } from "../../src/store/steps.ts";
import type { PageFilter, PagePosition, RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { countPauses, isDoneAtPause } from "../support/store/partsOf.ts";
import { actor, ended, running, unbilled, type Owner } from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";

interface Row {
  readonly id: string;
  readonly status: string;
  readonly model: string;
}

const everything = { status: undefined, model: undefined };

describeStores("the list of an account's requests", (opened) => {
  /** All requests of an account, newest row first. */
  const rowsOf = ({ accountId }: Owner): Promise<Row[]> =>
    opened.rows(
      "SELECT public_id AS id, status, model FROM requests WHERE account_id = $accountId ORDER BY requests.id DESC",
      { accountId },
    );

  const begin = ({ accountId }: Owner, filter: PageFilter, after?: PagePosition) =>
    opened.store.requestsOfAccount(accountId, filter, after);

  const readPage = async (owner: Owner, filter: PageFilter, after?: PagePosition) => {
    const page = await runAsync(begin(owner, filter, after));
    if (page === undefined) throw new Error("the position is unknown");
    return page;
  };

  /** The ids of all pages. `between` runs between two pages. */
  const allPages = async (
    owner: Owner,
    filter: () => PageFilter,
    between = async (): Promise<void> => {},
  ): Promise<string[]> => {
    const ids: string[] = [];
    for (let after: PagePosition | undefined; ; await between()) {
      const { limit, ...others } = filter();
      const { rows, next } = await readPage(owner, { limit, ...others }, after);
      ids.push(...rows.map(({ id }) => id));
      if (next === undefined) return ids;
      expect(rows).toHaveLength(limit);
      after = next;
    }
  };

  test("the pages of a list have all requests that match, newest first, whatever order they ended in", async () => {
    const { below, chance, pick } = seededRandom(5);
    const alice = await opened.fund("alice", 10n ** 9n);
    const owners = [
      alice,
      await opened.fund("alice", 0n, { name: "other", budget: null }),
      await opened.fund("bob", 10n ** 9n),
    ];
    for (const { accountId } of owners) await opened.reserve(accountId, 500_000_000n);
    const open: RequestRecord[] = [];
    const writes: Promise<unknown>[] = [];
    const write = (record: RequestRecord): void => {
      writes.push(opened.writer.write({ kind: "recordRequest", record }));
    };
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
        write(running(record.publicId, owner, request));
        open.push(record);
      } else write(record);
      // Some share a transaction.
      if (chance(0.2)) await Promise.all(writes);
      // Requests with a row of their own end much later, and some never.
      const late = open[below(open.length + 1)];
      if (late === undefined || chance(0.3)) continue;
      write(late);
      open.splice(open.indexOf(late), 1);
    }
    await Promise.all(writes);
    const all = await rowsOf(alice);
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
    const alice = await opened.fund("alice", 10n ** 12n);
    const open: RequestRecord[] = [];
    let count = 0;
    const more = async (most: number) => {
      const ids = Array.from({ length: below(most) }, () => `req_${(count += 1)}`);
      await opened.recordMany(alice, ids);
    };
    /** Opens or ends a request that has its row before it ends. */
    const openOrEnd = async () => {
      const record = ended(`req_${(count += 1)}`, alice, chance(0.3) ? unbilled : {});
      await opened.record(running(record.publicId, alice));
      open.push(record);
      const late = open[below(2 * open.length)];
      if (late === undefined) return;
      await opened.record(late);
      open.splice(open.indexOf(late), 1);
    };
    for (let round = 0; round < 60; round += 1) {
      await more(100);
      await openOrEnd();
    }
    const expected = (await rowsOf(alice)).map(({ id }) => id);
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
    const alice = await opened.fund("alice", 10n ** 12n);
    const many = (prefix: string, length: number) =>
      Array.from({ length }, (_, at) => `req_${prefix}${at}`);
    const long = many("long", 1500);
    const { writer } = opened;
    const records = long.map((id) => running(id, alice));
    await Promise.all(records.map((record) => writer.write({ kind: "recordRequest", record })));
    const short = many("short", 300);
    await opened.recordMany(alice, short);
    await opened.recordMany(alice, long.slice(0, 700));
    for (const id of many("cancelled", 150))
      await opened.record(ended(id, alice, { status: "cancelled" }));
    await opened.recordMany(alice, long.slice(700));
    const listed = await allPages(alice, () => ({ ...everything, limit: 100 }));
    const expected = [...long, ...short, ...many("cancelled", 150)];
    expect(listed.length).toBe(expected.length);
    expect(listed.toSorted()).toEqual(expected.toSorted());
  }, 60_000);

  test("a request that is folded between two pages is left out, and the list goes on", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    const ids = Array.from({ length: 10 }, (_, at) => `req_${at}`);
    for (const [at, id] of ids.entries())
      await opened.record(ended(id, alice, { at: actor.at + at }));
    const filter = { ...everything, limit: 4 };
    const { rows, next } = await readPage(alice, filter);
    await opened.writer.write({ kind: "fold", before: actor.at + 3 });
    const later = await readPage(alice, filter, next);
    expect([...rows, ...later.rows].map(({ id }) => id)).toEqual(ids.slice(3).toReversed());
    expect(later.next).toBeUndefined();
  });

  test("what ends while a page is read is in it once, as it was asked for", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    const open = ["req_1", "req_2", "req_3"];
    for (const id of open) await opened.record(running(id, alice));
    const listOf = (status?: "running" | "failed") =>
      begin(alice, { ...everything, status, limit: 9 });
    const lists = { all: listOf(), running: listOf("running"), failed: listOf("failed") };
    for (const list of Object.values(lists)) await isDoneAtPause(list);
    await opened.record(ended("req_1", alice, unbilled));
    await opened.record(ended("req_2", alice));
    await opened.record(ended("req_4", alice));
    const read = async (list: ReturnType<typeof listOf>) =>
      (await runAsync(list))?.rows.map(({ id, status }) => `${id} ${status}`);
    expect(await read(lists.all)).toEqual(["req_3 running", "req_2 done", "req_1 failed"]);
    expect(await read(listOf("running"))).toEqual(["req_3 running"]);
    expect(await read(listOf())).toEqual([
      "req_4 done",
      "req_3 running",
      "req_2 done",
      "req_1 failed",
    ]);
  });

  test("a list by a model that is rare among thousands of charges has all of them, folded or not", async () => {
    const alice = await opened.fund("alice", 10n ** 12n);
    let count = 0;
    const more = () =>
      opened.recordMany(
        alice,
        Array.from({ length: 1500 }, () => `req_${(count += 1)}`),
      );
    const rare: string[] = [];
    const one = async (changes: Partial<RequestRecord> = {}) => {
      const id = `req_rare${rare.length}`;
      rare.unshift(id);
      await opened.record(ended(id, alice, { model: "rare", ...changes }));
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
    const pauses = (model: string) =>
      countPauses(begin(alice, { ...everything, model, limit: 20 }));
    expect(await pauses("never")).toBeLessThan(15);
    expect(await pauses("rare")).toBeGreaterThan(20);
    await opened.writer.write({ kind: "fold", before: actor.at });
    for (const limit of limits)
      expect(await allPages(alice, () => ({ ...filter, limit }))).toEqual(rare.slice(0, -2));
  }, 60_000);

  test("a position with invented numbers reads no more than the account's charges", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    await opened.recordMany(alice, ["req_1", "req_2", "req_3"]);
    const far = 999_999_999_999_999;
    const filter = { ...everything, limit: 1 };
    for (const leftFrom of [0, 1, far])
      for (const scannedTo of [0, far])
        for (const newest of [0, far]) {
          const after = { id: "req_3", newest, leftFrom, scannedTo };
          const pauses = await countPauses(begin(alice, filter, after), 100);
          expect({ after, isLong: pauses === 100 }).toEqual({ after, isLong: false });
        }
  });
});
