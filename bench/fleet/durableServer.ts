import { SQL } from "bun";
import { startPostgres, type PostgresServer } from "../../test/support/servers/postgres.ts";

/** The settings of a server that is measured: each commit is on the disk before it is reported. */
export const DURABLE_SETTINGS = [
  "fsync=on",
  "full_page_writes=on",
  "synchronous_commit=on",
  "shared_buffers=256MB",
  // A checkpoint would disturb one turn and not the others.
  "checkpoint_timeout=1h",
  "max_wal_size=8GB",
];

/** Starts a PostgreSQL server of the bench's own. Rejects, with what to install, if none can be started here. */
export async function startDurableServer(): Promise<PostgresServer> {
  return await startPostgres(DURABLE_SETTINGS);
}

/** Makes an empty database on the server and resolves with its URL. `name`: small letters, digits and underscores. */
export async function createDatabase(server: PostgresServer, name: string): Promise<string> {
  await using sql = new SQL(server.url(), { max: 1 });
  await sql.unsafe(`CREATE DATABASE ${name}`);
  return server.url(name);
}

/**
 * The number of writing transactions that the whole server has ended or broken off since it was made. The counter of
 * pg_stat_database is up to 10 s late, and this one is not.
 */
export async function countTransactions(sql: SQL): Promise<number> {
  const [row] = await sql`SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next`;
  return Number(row.next);
}
