import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { getTableColumns, getViewSelectedFields, is, Table, View, type Column } from "drizzle-orm";
import { getTableConfig as postgresTable, PgTable } from "drizzle-orm/pg-core";
import { getTableConfig as sqliteTable, SQLiteTable } from "drizzle-orm/sqlite-core";
import { knownSchema } from "../../../src/store/postgres/schema/migrations.ts";
import * as postgres from "../../../src/store/postgres/schema/schema.ts";
import { migrationsBetween } from "../../../src/store/schema/migrationFiles.ts";
import * as sqlite from "../../../src/store/schema/schema.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";

/** What only replicas need. */
const POSTGRES_ONLY = ["replicas", "reserves", "requests.replicaId"];
const POSTGRES_ONLY_RULES = ["requests_replica"];

/** The tables and views of a module, by the name in the code. */
function relationsOf(module: object): readonly (readonly [string, Table | View])[] {
  return Object.entries(module).filter(
    (entry): entry is [string, Table | View] => is(entry[1], Table) || is(entry[1], View),
  );
}

/** A line for each column: names, kind of the value in the code, and whether it may be NULL. */
function columnsOf(module: object): readonly string[] {
  return relationsOf(module).flatMap(([key, relation]) => {
    const columns: Record<string, Column> = is(relation, Table)
      ? getTableColumns(relation)
      : (getViewSelectedFields(relation) as Record<string, Column>);
    return Object.entries(columns).map(([columnKey, column]) => {
      const kind = column.notNull ? kindOf(column) : `${kindOf(column)} or NULL`;
      return `${key}.${columnKey} (${column.name}): ${kind}`;
    });
  });
}

/** `bigint`, `number` or `boolean` for an integer, by what the code reads. */
function kindOf(column: Column): string {
  const type = column.getSQLType();
  if (["integer", "bigint"].includes(type)) return typeof column.mapFromDriverValue(1n);
  return type.startsWith("text") ? "text" : "bytes";
}

const withoutReplicas = (lines: readonly string[]): readonly string[] =>
  lines
    .filter((line) => !POSTGRES_ONLY.some((name) => RegExp(`^${name}\\b`).test(line)))
    .toSorted();

test("both engines have the same tables and columns, except what replicas need", () => {
  expect(columnsOf(sqlite).length).toBeGreaterThan(100);
  expect(withoutReplicas(columnsOf(postgres))).toEqual(columnsOf(sqlite).toSorted());
});

test("both engines have the same CHECKs and indexes by name", () => {
  const named = (config: {
    checks: readonly { name: string }[];
    indexes: readonly { config: { name?: string | undefined } }[];
    columns: readonly { isUnique: boolean; uniqueName: string | undefined }[];
  }) => [
    ...config.checks.map(({ name }) => name),
    ...config.indexes.map((one) => one.config.name ?? ""),
    ...config.columns.filter(({ isUnique }) => isUnique).map(({ uniqueName }) => uniqueName ?? ""),
  ];
  const ofPostgres = relationsOf(postgres).flatMap(([key, relation]) =>
    is(relation, PgTable) && !POSTGRES_ONLY.includes(key) ? named(postgresTable(relation)) : [],
  );
  const ofSqlite = relationsOf(sqlite).flatMap(([, relation]) =>
    is(relation, SQLiteTable) ? named(sqliteTable(relation)) : [],
  );
  expect(ofPostgres.filter((name) => !POSTGRES_ONLY_RULES.includes(name)).toSorted()).toEqual(
    ofSqlite.toSorted(),
  );
});

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
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
        AND relname <> 'schema_version'`;
    const expected = relationsOf(postgres).flatMap(([, relation]) => {
      if (!is(relation, PgTable)) return [];
      const { name, columns, primaryKeys } = postgresTable(relation);
      const ofKey = primaryKeys.flatMap((key) => key.columns.map((column) => column.name));
      return columns.map((column) => {
        const isRequired = column.notNull || ofKey.includes(column.name);
        return `${name}.${column.name}: ${column.getSQLType()}${isRequired ? " NOT NULL" : ""}`;
      });
    });
    expect(found.map(({ line }) => line).toSorted()).toEqual(expected.toSorted());
  });

  test("give the last rows of an account's history in order by the indexes of both tables", async () => {
    await sql.unsafe("SET enable_seqscan = off");
    const lines = await sql
      .unsafe(
        "EXPLAIN SELECT * FROM history WHERE account_id = 1 AND seq < 9 ORDER BY seq DESC LIMIT 5",
      )
      .values();
    const plan = lines.flat().join("\n");
    expect(plan).toContain("Backward using ledger_account_seq");
    expect(plan).toContain("Backward using requests_account_seq");
    expect(plan).not.toMatch(/->  Sort/);
  });
});
