import { afterEach, beforeEach, expect, test } from "bun:test";
import { openServer, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { StoreError } from "../../../src/store/store.ts";
import { rejectionOf } from "../../support/gateway/httpClient.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { startTcpProxy, type TcpProxy } from "../../support/servers/tcpProxy.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { Books } from "../../support/store/replica.ts";
import type { Owner } from "../../support/store/storeFolder.ts";

const ANSWER_WITHIN_MS = 20_000;
/** For a server that gives no answer. */
const SHORT_ANSWER_WITHIN_MS = 700;
const DAYS = { from: 20_000, to: 20_003 };
const SHOWN_URL = "postgres://server/long";

type Read = (store: PostgresStore, accountId: number) => Promise<unknown>;

const reads: readonly (readonly [string, Read])[] = [
  ["usage by day", (store, id) => store.usage.ofAccountByDay(id, DAYS, async () => {})],
  ["usage by hour", (store, id) => store.usage.ofAccountByHour(id, DAYS, async () => {})],
  ["a page", (store, id) => store.requests.list({ account: id }, { limit: 5 })],
];

describePostgres("a long read on PostgreSQL", () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let books: Books;
  let store: PostgresStore;
  let owner: Owner;
  const openStore = async (answerWithinMs: number): Promise<PostgresStore> => {
    const address = { url: proxy.through(database.url), shownUrl: SHOWN_URL };
    return (await openServer(address, answerWithinMs)).store;
  };
  beforeEach(async () => {
    database = await replicaDatabase();
    proxy = await startTcpProxy(Number(new URL(database.url).port));
    books = new Books(database.url);
    owner = await books.open("alice", 10n);
    store = await openStore(ANSWER_WITHIN_MS);
  });
  afterEach(async () => {
    await store.close();
    await books[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
    await database.drop();
  });

  /** All at once, for each waits for ten seconds. */
  const failures = () =>
    Promise.all(
      reads.map(async ([name, read]) => {
        const error = await rejectionOf(read(store, owner.accountId));
        const { message } = error as Error;
        return [name, error instanceof StoreError && message.includes(SHOWN_URL) ? "" : message];
      }),
    );
  const told = reads.map(([name]) => [name, ""]);

  test("fails in time where the server gives no answer", async () => {
    await store.close();
    store = await openStore(SHORT_ANSWER_WITHIN_MS);
    for (const [, read] of reads) await read(store, owner.accountId);
    proxy.hang();
    expect(await failures()).toEqual(told);
    proxy.pass();
    for (const [, read] of reads) await read(store, owner.accountId);
  });

  test.each(reads)("begins again where its connection breaks at first: %s", async (_, read) => {
    for (let time = 0; time < 5; time += 1) {
      await read(store, owner.accountId);
      proxy.reset();
      await read(store, owner.accountId);
      proxy.reset();
      expect(await store.accounts.list()).toHaveLength(1);
    }
  });

  test("fails where its server is gone, as other reads do", async () => {
    await proxy.refuse();
    proxy.reset();
    expect(await failures()).toEqual(told);
  });
});
