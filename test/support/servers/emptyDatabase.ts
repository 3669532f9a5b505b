import { SQL } from "bun";

/** What a database was when it was made. */
export interface NewState {
  /** Changes with each change of the schema or of the settings of the database. */
  readonly schema: string;
  /** Statements that give the tables their first rows again, and the sequences their first values. */
  readonly emptying: string;
}

/** Tables that occupy more had many rows, and the statistics of them would change how later tests run. */
const keptBytesMax = 4 * 1024 * 1024;
const endedWithinMs = 10_000;

/** Each row of the catalog has the number of the transaction that wrote it. Those below 16,384 are of the server. */
const schemaQuery = `
  SELECT md5(string_agg(part, ',' ORDER BY part)) AS schema FROM (
    SELECT 'class ' || oid || ' ' || xmin AS part FROM pg_class WHERE oid >= 16384 AND relpersistence <> 't'
    UNION ALL SELECT 'column ' || attrelid || ' ' || attnum || ' ' || xmin FROM pg_attribute
      WHERE attrelid IN (SELECT oid FROM pg_class WHERE oid >= 16384 AND relpersistence <> 't')
    UNION ALL SELECT 'constraint ' || oid || ' ' || xmin FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT 'trigger ' || oid || ' ' || xmin FROM pg_trigger WHERE oid >= 16384
    UNION ALL SELECT 'index ' || indexrelid || ' ' || xmin FROM pg_index WHERE indexrelid >= 16384
    UNION ALL SELECT 'function ' || oid || ' ' || xmin FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT 'schema ' || oid || ' ' || xmin FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
    UNION ALL SELECT 'database ' || oid || ' ' || xmin FROM pg_database WHERE datname = current_database()
    UNION ALL SELECT 'setting ' || setrole || ' ' || setconfig::text FROM pg_db_role_setting
      WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
  ) parts`;

const tablesQuery = `
  SELECT quote_ident(relname) AS name, pg_table_size(oid) AS bytes, reltuples >= 0 AS analyzed FROM pg_class
  WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`;

const endOthers = `
  SELECT pg_terminate_backend(pid, ${endedWithinMs}) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`;

/** Reads what a new database is. */
export async function newStateOf(url: string): Promise<NewState> {
  await using sql = new SQL(url, { max: 1 });
  const [found] = await sql.unsafe<{ schema: string }[]>(schemaQuery);
  const tables = await sql.unsafe<{ name: string }[]>(tablesQuery);
  const sequences = await sql.unsafe<{ name: string }[]>(
    "SELECT quote_ident(relname) AS name FROM pg_class WHERE relkind = 'S' AND relnamespace = current_schema()::regnamespace",
  );
  const statements = ["BEGIN", "SET LOCAL session_replication_role = replica"];
  for (const { name } of tables) {
    const [rows] = await sql.unsafe<{ text: string | null }[]>(
      `SELECT quote_literal(json_agg(t)::text) AS text FROM ${name} t`,
    );
    statements.push(`DELETE FROM ${name}`);
    if (rows?.text)
      statements.push(
        `INSERT INTO ${name} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${name}, ${rows.text})`,
      );
  }
  for (const { name } of sequences) {
    const [at] = await sql.unsafe<{ value: string; called: boolean }[]>(
      `SELECT last_value::text AS value, is_called AS called FROM ${name}`,
    );
    statements.push(`SELECT setval('${name}', ${at?.value}, ${at?.called})`);
  }
  statements.push("COMMIT");
  return { schema: found?.schema ?? "", emptying: statements.join(";\n") };
}

/** Ends all connections of a database and makes it as it was when it was new. False: it cannot be, and must be removed. */
export async function emptied(url: string, state: NewState): Promise<boolean> {
  await using sql = new SQL(url, { max: 1 });
  await sql.unsafe(endOthers);
  const [found] = await sql.unsafe<{ schema: string }[]>(schemaQuery);
  if (found?.schema !== state.schema) return false;
  const tables = await sql.unsafe<{ bytes: string; analyzed: boolean }[]>(tablesQuery);
  // The planner would believe that a table stays as small as it was at the last ANALYZE or VACUUM.
  if (tables.some(({ analyzed }) => analyzed)) return false;
  const bytes = tables.reduce((sum, table) => sum + Number(table.bytes), 0);
  if (bytes > keptBytesMax) return false;
  // No trigger and no foreign key acts: they forbid to delete what happened.
  await sql.unsafe(state.emptying);
  return true;
}
