import { SQL } from "bun";
import { expect, test } from "bun:test";
import {
  countMigrations,
  knownSchema,
  migrateServer,
} from "../../../src/store/postgres/schema/migrations.ts";
import { openServerStore } from "../../../src/store/store.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase } from "../../support/servers/postgres.ts";
import { fillEarlierServer } from "../../support/store/earlierServerRecords.ts";

const KNOWN = countMigrations(knownSchema);
/** The schema of each release. */
const schemas = knownSchema.releases.map((_, index) => {
  const schema = { ...knownSchema, releases: knownSchema.releases.slice(0, index + 1) };
  return [countMigrations(schema), schema] as const;
});

describePostgres("a command upgrades a PostgreSQL database of each release", () => {
  test.each(schemas)("with %i migrations", async (applied, schema) => {
    await using database = await freshDatabase();
    await using sql = new SQL(database.url, { max: 1, bigint: true });
    await migrateServer(sql, schema);
    await fillEarlierServer(sql, schema);
    const balances = () => sql`SELECT name, balance, ledger_seq FROM accounts ORDER BY id`.values();
    const before = await balances();
    const told: unknown[] = [];
    const store = await openServerStore(
      { url: database.url, shownUrl: "the url" },
      { onUpgrade: (version) => told.push(version) },
    );
    try {
      expect(told).toMatchObject(applied === KNOWN ? [] : [{ applied, known: KNOWN }]);
      expect(await balances()).toEqual(before);
      // 10,000 less a debit of 30 and charges of 100, 500 and 50, with a refund of 120.
      expect(await store.accounts.find("alice")).toMatchObject({ balance: 9440n });
      expect((await store.auditInParallel()).problems).toEqual([]);
      expect(await store.requests.list({ limit: 9 })).toHaveLength(4);
    } finally {
      await store.close();
    }
  });
});
