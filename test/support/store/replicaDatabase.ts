import { SQL } from "bun";
import { knownSchema, migrateServer } from "../../../src/store/postgres/schema/migrations.ts";
import { databaseFrom, type TestDatabase } from "../servers/postgres.ts";

/** A PostgreSQL database with the tables of the store. */
export async function replicaDatabase(): Promise<TestDatabase> {
  return await databaseFrom(`tollgate_${contentOfMigrations()}`, async (url) => {
    await using sql = new SQL(url, { max: 1 });
    await migrateServer(sql);
  });
}

/** Checkouts with different migrations may share a server. */
function contentOfMigrations(): string {
  const { releases, statements } = knownSchema;
  const texts = releases.flatMap(({ migrations }) => migrations.flatMap(statements));
  return Bun.hash(texts.join("\n")).toString(16);
}
