import { expect, test } from "bun:test";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import type { Pause, PageRequest, RequestFilter, RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { actor, ended, running, unbilled } from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";

interface Row {
  readonly id: string;
  readonly account: string;
  readonly key: string;
  readonly status: string;
  readonly model: string;
  readonly at: bigint;
}

const some = <T>(...values: readonly T[]) => [undefined, ...values];

describeStores("the list of requests", (opened) => {
  /** All requests, newest row first. */
  const allRows = (): Promise<Row[]> =>
    opened.rows(
      `SELECT r.public_id AS id, a.name AS account, k.public_id AS key, r.status, r.model, r.at
        FROM requests r JOIN accounts a ON a.id = r.account_id JOIN keys k ON k.id = r.key_id ORDER BY r.id DESC`,
    );

  /** The ids of all pages. `between` runs between two pages. A page that is not cut is full. */
  const allPages = async (
    filter: RequestFilter,
    page: () => PageRequest,
    between = async (): Promise<void> => {},
  ): Promise<string[]> => {
    const ids: string[] = [];
    for (let before: number | undefined; ; await between()) {
      const { limit, ...others } = page();
      const list = await opened.store.requests.list(filter, { limit, ...others, before });
      ids.push(...list.rows.map(({ id }) => id));
      if (list.next === undefined) return ids;
      if (!list.isCut) expect(list.rows).toHaveLength(limit);
      before = list.next.row;
    }
  };

  test("its pages have all requests that match, newest first, whatever order they ended in", async () => {
    const { below, chance, pick } = seededRandom(11);
    const alice = await opened.fund("alice", 10n ** 9n);
    const other = await opened.fund("alice", 0n, { name: "other", budget: null });
    const bob = await opened.fund("bob", 10n ** 9n);
    const owners = [alice, other, bob];
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
    const all = await allRows();
    expect(new Set(all.map(({ status }) => status)).size).toBe(4);
    const since = actor.at + 200_000;
    for (const account of some<string | number>("alice", bob.accountId))
      for (const key of some("key_alice", "key_bob"))
        for (const status of some(...requestStatuses))
          for (const model of some("small"))
            for (const span of [{}, { since }, { since, until: since + 90_000 }]) {
              const filter = { account, status, key, model, ...span };
              const expected = all.filter(
                (row) =>
                  (account === undefined ||
                    row.account === (account === "alice" ? account : "bob")) &&
                  row.status === (status ?? row.status) &&
                  row.key === (key ?? row.key) &&
                  row.model === (model ?? row.model) &&
                  (filter.since ?? 0) <= row.at &&
                  row.at < (filter.until ?? Infinity),
              );
              const page = pick([
                { limit: 7 },
                { limit: 100 },
                { limit: 9, stepRows: 4, examinedMax: 10 },
              ]);
              const ids = await allPages(filter, () => page);
              expect({ filter, page, ids }).toEqual({
                filter,
                page,
                ids: expected.map(({ id }) => id),
              });
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
    const expected = (await allRows()).map(({ id }) => id);
    expect(expected.length).toBeGreaterThan(2500);
    const listed = await allPages(
      { account: "alice" },
      () => ({ limit: pick([1, 20, 50, 100]) }),
      async () => {
        if (chance(0.3)) await more(30);
        if (chance(0.5)) await openOrEnd();
      },
    );
    expect(listed).toEqual(expected);
  }, 60_000);

  test("more than a thousand requests that were open at once keep their places", async () => {
    const alice = await opened.fund("alice", 10n ** 12n);
    const many = (prefix: string, length: number) =>
      Array.from({ length }, (_, at) => `req_${prefix}${at}`);
    const [long, short] = [many("long", 1500), many("short", 300)];
    const { writer } = opened;
    const records = long.map((id) => running(id, alice));
    await Promise.all(records.map((record) => writer.write({ kind: "recordRequest", record })));
    await opened.recordMany(alice, short);
    await opened.recordMany(alice, long.slice(0, 700));
    await opened.recordMany(alice, long.slice(700));
    const listed = await allPages({ account: "alice" }, () => ({ limit: 100 }));
    expect(listed).toEqual([...long, ...short].toReversed());
  }, 60_000);

  test("a request that is folded between two pages is left out, and the list goes on", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    const ids = Array.from({ length: 10 }, (_, at) => `req_${at}`);
    for (const [at, id] of ids.entries())
      await opened.record(ended(id, alice, { at: actor.at + at }));
    const list = (before?: number) =>
      opened.store.requests.list({ account: "alice" }, { limit: 4, before });
    const { rows, next } = await list();
    await opened.writer.write({ kind: "fold", before: actor.at + 3 });
    const later = await list(next?.row);
    expect([...rows, ...later.rows].map(({ id }) => id)).toEqual(ids.slice(3).toReversed());
    expect(later.next).toBeUndefined();
  });

  test("what ends while a page is read is in it once, as it was asked for", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    const open = ["req_1", "req_2", "req_3"];
    for (const id of open) await opened.record(running(id, alice));
    const listOf = async (status?: "running", pause?: Pause) => {
      const filter = { account: alice.accountId, model: "small", status };
      const { rows } = await opened.store.requests.list(filter, { limit: 9, stepRows: 3, pause });
      return rows.map((row) => `${row.id} ${row.status}`);
    };
    const paused = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const goOn = Promise.withResolvers<void>();
    const pauses = paused.map(({ resolve }) => () => {
      resolve();
      return goOn.promise;
    });
    const lists = [listOf(undefined, pauses[0]), listOf("running", pauses[1])];
    for (const { promise } of paused) await promise;
    await opened.record(ended("req_1", alice, unbilled));
    await opened.record(ended("req_2", alice));
    await opened.record(ended("req_4", alice));
    goOn.resolve();
    const first = ["req_3 running", "req_2 done", "req_1 failed"];
    expect(await Promise.all(lists)).toEqual([first, ["req_3 running"]]);
    expect(await listOf("running")).toEqual(["req_3 running"]);
    expect(await listOf()).toEqual(["req_4 done", ...first]);
  });
});
