import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { is } from "drizzle-orm";
import { getTableConfig, PgTable } from "drizzle-orm/pg-core";
import { knownSchema } from "../../../src/store/postgres/schema/migrations.ts";
import * as postgres from "../../../src/store/postgres/schema/schema.ts";
import { migrationsBetween } from "../../../src/store/schema/migrationFiles.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";

test("the releases have all migrations in their order", () => {
  const { releases } = knownSchema;
  expect(releases.flatMap(({ migrations }) => migrations)).toEqual([
    ...migrationsBetween("postgres", 0),
  ]);
});

describePostgres("the tables on PostgreSQL", () => {
  let database: TestDatabase;
  let sql: SQL;
  beforeAll(async () => {
    database = await replicaDatabase();
    sql = new SQL(database.url, { max: 1 });
  });
  afterAll(async () => {
    await sql.close();
    await database.drop();
  });

  test("are those of the code: names, types, order of texts, and what may be NULL", async () => {
    const found = await sql<{ line: string }[]>`
      SELECT relname || '.' || attname || ': ' || format_type(atttypid, atttypmod)
        || coalesce(' COLLATE "' || nullif(collname, 'default') || '"', '')
        || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END AS line
      FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
      LEFT JOIN pg_collation ON pg_collation.oid = attcollation
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
        AND relname <> 'schema_version'`;
    const expected = Object.values<unknown>(postgres).flatMap((relation) => {
      if (!is(relation, PgTable)) return [];
      const { name, columns, primaryKeys } = getTableConfig(relation);
      const ofKey = primaryKeys.flatMap((key) => key.columns.map((column) => column.name));
      return columns.map((column) => {
        const isRequired = column.notNull || ofKey.includes(column.name);
        return `${name}.${column.name}: ${column.getSQLType()}${isRequired ? " NOT NULL" : ""}`;
      });
    });
    expect(found.map(({ line }) => line).toSorted()).toEqual(expected.toSorted());
  });
});
