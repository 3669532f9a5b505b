import { afterEach, beforeEach, expect, test } from "bun:test";
import { openServer } from "../../../src/store/postgres/store.ts";
import { openServerStore } from "../../../src/store/open.ts";
import { MoneyReservedError } from "../../../src/store/store.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { Books, openReplica, openBooksBefore } from "../../support/store/replica.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { actor, costOfEnded } from "../../support/store/storeFolder.ts";
import { chargeInto, moveAlice } from "../../support/store/uncheckedSql.ts";

const balance = 10n * costOfEnded;

describePostgres("a command that stands still in its transaction", () => {
  test("loses its locks after five seconds, so that replicas can go on", async () => {
    await using database = await replicaDatabase();
    await using books = new Books(database.url);
    await books.open("alice", balance);
    const { queries, store } = await openServer({ url: database.url, shownUrl: "the database" });
    const [locked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const command = queries.inTransaction(async (transaction) => {
      await transaction.rows("SELECT id FROM accounts FOR UPDATE");
      locked.resolve();
      await goOn.promise;
      await transaction.rows("SELECT 1");
    });
    const failure = command.catch((error: unknown) => error);
    await locked.promise;
    expect(await books.sql`SELECT id FROM accounts FOR UPDATE`).toHaveLength(1);
    goOn.resolve();
    expect(await failure).toBeInstanceOf(Error);
    await store.close();
  }, 60_000);
});

describePostgres("a command that waits for a batch of a replica", () => {
  const { database, books } = openBooksBefore({ mayDisagree: true });
  let store: Awaited<ReturnType<typeof openServerStore>>;
  beforeEach(async () => {
    store = await openServerStore({ url: database.url, shownUrl: "postgres://server/books" });
    await books.open("alice", balance);
  });
  afterEach(async () => {
    await store.close();
  });

  /** Starts a change of the whole balance while the transaction of a batch is open, and lets it wait for the account. */
  const changeBehind = async (batch: string, kind: "credit" | "debit") => {
    const change = { account: "alice", kind, amount: balance, ref: null, note: null };
    const { sql } = books;
    let changed: Promise<unknown> = Promise.resolve();
    await sql.begin(async (own) => {
      await own.unsafe(batch);
      changed = store.admin.changeBalance(actor, change).catch((error: unknown) => error);
      const waiting = () => sql`SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      while ((await waiting()).length === 0);
    });
    return await changed;
  };

  test("debits nothing that the batch has reserved, and says why", async () => {
    await using replica = await openReplica(database.url);
    const reserved = `UPDATE accounts SET reserved = 1;
      INSERT INTO reserves (replica_id, account_id, key_id, amount) VALUES (${replica.lease.id}, 1, 0, 1)`;
    expect(await changeBehind(reserved, "debit")).toBeInstanceOf(MoneyReservedError);
    expect(await books.account(1)).toMatchObject({ balance });
  });

  test("credits the account after the charges of the batch", async () => {
    const after = 2n * balance - 25n;
    expect(
      await changeBehind(`${moveAlice(1, 25)}; ${chargeInto("req_1")}`, "credit"),
    ).toMatchObject({ applied: true, account: { balance: after } });
    expect(await books.account(1)).toMatchObject({ balance: after, ledger_seq: 3n });
  });
});
