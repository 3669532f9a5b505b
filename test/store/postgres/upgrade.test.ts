import { SQL } from "bun";
import { expect, test } from "bun:test";
import { openServerStore } from "../../../src/store/open.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase } from "../../support/servers/postgres.ts";
import { makeEarlierServer, versionsOf } from "../../support/store/earlierVersion.ts";

const VERSIONS = versionsOf("postgres");
const KNOWN = VERSIONS.at(-1);

describePostgres(
  "a command upgrades a PostgreSQL database of 0.2.0 and of each later schema",
  () => {
    test.each(VERSIONS)("with schema %i", async (applied) => {
      await using database = await freshDatabase();
      await using sql = new SQL(database.url, { max: 2, bigint: true });
      await makeEarlierServer(sql, applied);
      const balances = () =>
        sql`SELECT name, balance, ledger_seq FROM accounts ORDER BY id`.values();
      const before = await balances();
      const told: unknown[] = [];
      const store = await openServerStore(
        { url: database.url, shownUrl: "the url" },
        { onUpgrade: (version) => told.push(version) },
      );
      try {
        expect(told).toMatchObject(applied === KNOWN ? [] : [{ applied, known: KNOWN }]);
        expect(await balances()).toEqual(before);
        // 20,000 less a debit of 30 and charges of 6,475, with refunds of 125.
        expect(await store.accounts.find("alice")).toMatchObject({ balance: 13_620n });
        expect((await store.audit()).problems).toEqual([]);
        expect((await store.requests.list({}, { limit: 20 })).rows).toHaveLength(9);
      } finally {
        await store.close();
      }
    });
  },
);
