import { SQL } from "bun";
import { expect, test } from "bun:test";
import { openServer } from "../../../src/store/postgres/store.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { actor } from "../../support/store/storeFolder.ts";

describePostgres("the signal of changes on PostgreSQL", () => {
  test("differs after each commit, also of a transaction that began before the last one", async () => {
    await using database = await replicaDatabase();
    const { store } = await openServer({ url: database.url, shownUrl: "postgres://server/signal" });
    await using early = new SQL(database.url, { max: 1 });
    await using late = new SQL(database.url, { max: 1 });
    const seen = [await store.changeSignal()];
    const isNew = async (): Promise<boolean> => {
      const now = await store.changeSignal();
      return !seen.includes(now) && seen.push(now) > 0;
    };
    await store.admin.createAccount(actor, "alice", 0n);
    expect(await isNew()).toBe(true);
    const change = (name: string) =>
      `INSERT INTO accounts (name, created_at) VALUES ('${name}', 0)`;
    await early.begin(async (first) => {
      await first.unsafe(change("early"));
      await late.begin(async (second) => {
        await second.unsafe(change("late"));
      });
      expect(await isNew()).toBe(true);
    });
    expect(await isNew()).toBe(true);
    await store.close();
  });
});
