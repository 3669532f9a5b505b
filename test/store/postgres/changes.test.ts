import { SQL } from "bun";
import { beforeEach, expect, test } from "bun:test";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { Books, openBooksBefore } from "../../support/store/replica.ts";
import { toldKeyColumns } from "../../support/store/toldKeyColumns.ts";
import { chargeInto, ledgerInto, moveAlice } from "../../support/store/uncheckedSql.ts";
import { until } from "../../support/until.ts";

describePostgres("changes that replicas must hear of", () => {
  const { database, books } = openBooksBefore({ mayDisagree: true });
  beforeEach(async () => {
    for (const name of ["alice", "bob"]) await books.open(name, 10n);
  });

  test("are told with the account, once for each transaction", async () => {
    const told: string[] = [];
    await using _listening = await books.sql.listen("tollgate_changed", (id) => told.push(id));
    const { sql } = books;
    await sql.unsafe(ledgerInto("bob"));
    await sql`UPDATE keys SET last_used_at = 1`;
    await sql`UPDATE keys SET revoked_at = 1 WHERE id = 1`;
    await sql`INSERT INTO accounts (name, created_at) VALUES ('carol', 0)`;
    await sql.begin(async (own) => {
      await own`UPDATE keys SET budget = 5 WHERE id = 1`;
      await own`UPDATE keys SET account_id = 2 WHERE id = 1`;
      await own`UPDATE accounts SET disabled = 1 WHERE id = 2`;
    });
    await until("all are told", () => told.length >= 5);
    expect(told).toEqual(["2", "1", "3", "1", "2"]);
  });

  test("are those of each column of a key that authentication or money reads", async () => {
    const rows = await books.sql<{ name: string }[]>`
      SELECT event_object_column AS name FROM information_schema.triggered_update_columns
      WHERE trigger_name = 'keys_changed'`;
    expect(rows.map(({ name }) => name).toSorted()).toEqual(toldKeyColumns.toSorted());
  });

  test("of one transaction do not wait for those of another that is still open", async () => {
    await using other = new SQL(database.url, { max: 1 });
    await books.sql.begin(async (slow) => {
      await slow.unsafe(ledgerInto("alice"));
      await slow`UPDATE keys SET revoked_at = 1 WHERE id = 1`;
      await other.begin(async (fast) => {
        await fast`SET LOCAL lock_timeout = '2s'`;
        await fast.unsafe(ledgerInto("bob"));
        await fast`UPDATE keys SET revoked_at = 1 WHERE id = 2`;
      });
    });
    expect(await books.account(1)).toMatchObject({ balance: 11n });
    expect(await books.account(2)).toMatchObject({ balance: 11n });
  });

  test("are counted once for a transaction that makes a thousand of them", async () => {
    const before = (await books.sql`SELECT seq FROM changes`)[0].seq;
    await books.sql.begin(async (own) => {
      await own`INSERT INTO accounts (name, created_at) SELECT 'a' || n, 0 FROM generate_series(1, 1000) AS n`;
    });
    expect((await books.sql`SELECT seq FROM changes`)[0].seq).toBe(before + 1n);
  });
});

describePostgres("two transactions at once", () => {
  test.each([
    ["credits", ledgerInto("alice"), ledgerInto("alice")],
    ["a charge and a credit", `${moveAlice(1, 25)}; ${chargeInto("x")}`, ledgerInto("alice")],
    ["a credit and a charge", ledgerInto("alice"), `${moveAlice(1, 25)}; ${chargeInto("x")}`],
    [
      "a credit and a charge without a move",
      ledgerInto("alice"),
      chargeInto("x", "a.ledger_seq + 1", "a.balance - 25"),
    ],
    [
      "charges",
      `${moveAlice(1, 25)}; ${chargeInto("x")}`,
      `${moveAlice(1, 25)}; ${chargeInto("y")}`,
    ],
  ])("leave no gap and no number twice: %s", async (_, one, another) => {
    await using database = await replicaDatabase();
    await using books = new Books(database.url);
    await books.open("alice", 1000n);
    await using other = new SQL(database.url, { max: 1 });
    let isRefused = false;
    let second: Promise<unknown> = Promise.resolve();
    await books.sql.begin(async (own) => {
      await own.unsafe(one);
      second = other.begin((later) => later.unsafe(another)).catch(() => (isRefused = true));
      const waiting = async () =>
        await books.sql`
        SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      for (let isOpen = true; isOpen;) isOpen = !isRefused && (await waiting()).length === 0;
    });
    await second;
    const problems = (await books.problems()).filter(
      (problem) => problem.includes("balance") || problem.includes("gap"),
    );
    expect(problems).toEqual([]);
  });
});
