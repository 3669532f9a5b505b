import type { SQL } from "bun";
import { PooledError, StoreError } from "../storeError.ts";
import { LAST_ENTRY } from "../tables/lastEntry.ts";
import {
  connectionError,
  foreignOwnerAdvice,
  missingSchemaAdvice,
  schemaRightAdvice,
  sqlName,
} from "./advice.ts";
import { readServerKind, type ServerKind } from "./durability.ts";
import { openClient, type ServerAddress } from "./pool.ts";
import { requireSessions } from "./pooler.ts";
import { readServerSchema, type ServerSchema } from "./schema/migrations.ts";
import { SILENT_MS } from "./writer/replicas.ts";

/** What `doctor` reads from a PostgreSQL server. */
export interface ServerInspection extends ServerKind {
  /** Undefined: there are no tables yet. */
  readonly schema: ServerSchema | undefined;
  /** Why this user could not make or upgrade the tables. */
  readonly rightsProblems: readonly string[];
  readonly bytes: number;
  readonly connections: { readonly open: number; readonly max: number };
  readonly standbys: readonly Standby[];
  /** The gateways that run on this database. */
  readonly replicas: readonly LiveReplica[];
  /** The server's clock less the clock of this machine, in milliseconds. The true value differs by at most `within`. */
  readonly clockSkew: { readonly ms: number; readonly within: number };
  /** The later time of the last credit, debit or refund and the end of the last request. */
  readonly lastEntryMs: number | undefined;
}

/** A standby of the inspected server. Null: the user may not see the value. */
export interface Standby {
  readonly name: string | null;
  readonly state: string | null;
  /** `sync` or `quorum`: a commit waits for it. */
  readonly syncState: string | null;
  /** How far the standby is behind. Null also if it has nothing to apply. */
  readonly lagMs: number | null;
  readonly lagBytes: number | null;
}

export interface LiveReplica {
  readonly id: number;
  readonly name: string;
  readonly version: string;
  /** The time since its last heartbeat, by the server's clock. */
  readonly silentMs: number;
  /** The replica sent no heartbeat for so long that the next gateway ends it. */
  readonly isSilent: boolean;
}

const CLOCK_READS = 3;

/** Inspects a server and the database without a change. Rejects with StoreError if it cannot be read. */
export async function inspectServer(address: ServerAddress): Promise<ServerInspection> {
  const sql = openClient(address, 2);
  try {
    await requireSessions(sql, address);
    return await inspect(sql);
  } catch (error) {
    if (!(error instanceof StoreError) || error instanceof PooledError)
      throw connectionError(address, error);
    throw new StoreError(`${address.shownUrl}: ${error.message}`, { cause: error });
  } finally {
    await sql.close();
  }
}

interface DatabaseRow {
  readonly bytes: bigint;
  readonly open: bigint;
  readonly max: bigint;
}

async function inspect(sql: SQL): Promise<ServerInspection> {
  const kind = await readServerKind(sql);
  const [database] = await sql.unsafe<DatabaseRow[]>(
    `SELECT pg_database_size(current_database()) AS bytes,
      (SELECT CAST(sum(numbackends) AS bigint) FROM pg_stat_database) AS open,
      CAST(current_setting('max_connections') AS bigint)
        - CAST(current_setting('superuser_reserved_connections') AS bigint) AS max`,
  );
  if (database === undefined) throw new Error("no answer");
  const rightsProblems = await readRightsProblems(sql);
  const schema = await readServerSchema(sql);
  return {
    ...kind,
    schema,
    rightsProblems,
    bytes: Number(database.bytes),
    connections: { open: Number(database.open), max: Number(database.max) },
    standbys: kind.isStandby ? [] : await readStandbys(sql),
    replicas: schema ? await readReplicas(sql) : [],
    clockSkew: await readClockSkew(sql),
    lastEntryMs: schema ? await readLastEntry(sql) : undefined,
  };
}

/** Null: the search_path names no schema that exists; no table belongs to another user. */
interface RightsRow {
  readonly user: string;
  readonly schema: string | null;
  readonly may_create: boolean | null;
  readonly owner: string | null;
}

/** Throws StoreError for tables of another user, because this one may not even read them. */
async function readRightsProblems(sql: SQL): Promise<readonly string[]> {
  const [row] = await sql.unsafe<RightsRow[]>(
    `SELECT current_user AS "user", current_schema() AS schema, has_schema_privilege(current_schema(), 'CREATE') AS may_create,
      (SELECT pg_get_userbyid(relowner) FROM pg_class
        WHERE oid = to_regclass('schema_version') AND NOT pg_has_role(relowner, 'USAGE')) AS owner`,
  );
  if (row === undefined) throw new Error("no answer");
  const user = sqlName(row.user);
  if (row.owner !== null)
    throw new StoreError(
      `the tables belong to the user ${row.owner}: ${foreignOwnerAdvice(sqlName(row.owner), user)}`,
    );
  if (row.schema === null) return [missingSchemaAdvice(user)];
  return row.may_create ? [] : [schemaRightAdvice(sqlName(row.schema), user)];
}

async function readStandbys(sql: SQL): Promise<readonly Standby[]> {
  const rows = await sql.unsafe<
    {
      readonly name: string | null;
      readonly state: string | null;
      readonly sync_state: string | null;
      readonly lag_ms: bigint | null;
      readonly lag_bytes: bigint | null;
    }[]
  >(
    `SELECT coalesce(nullif(application_name, ''), CAST(client_addr AS text)) AS name, state, sync_state,
      CAST(extract(epoch FROM replay_lag) * 1000 AS bigint) AS lag_ms,
      CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS bigint) AS lag_bytes
    FROM pg_stat_replication ORDER BY 1`,
  );
  return rows.map((row) => ({
    name: row.name,
    state: row.state,
    syncState: row.sync_state,
    lagMs: row.lag_ms === null ? null : Number(row.lag_ms),
    lagBytes: row.lag_bytes === null ? null : Number(row.lag_bytes),
  }));
}

async function readReplicas(sql: SQL): Promise<readonly LiveReplica[]> {
  const rows = await sql.unsafe<
    { readonly id: bigint; readonly name: string; readonly version: string; readonly ms: bigint }[]
  >(
    `SELECT id, name, version, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) - seen_at AS ms
    FROM replicas WHERE ended_at IS NULL ORDER BY id`,
  );
  return rows.map(({ id, name, version, ms }) => {
    const silentMs = Math.max(0, Number(ms));
    return { id: Number(id), name, version, silentMs, isSilent: silentMs >= SILENT_MS };
  });
}

/** The read with the shortest round trip is the most exact. */
async function readClockSkew(sql: SQL): Promise<ServerInspection["clockSkew"]> {
  let best = { ms: 0, within: Infinity };
  for (let read = 0; read < CLOCK_READS; read += 1) {
    const before = Date.now();
    const startedMs = performance.now();
    const [row] = await sql.unsafe<{ readonly now: bigint }[]>(
      "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AS now",
    );
    const within = (performance.now() - startedMs) / 2;
    const ms = Number(row?.now) - (before + within);
    if (within < best.within) best = { ms: Math.round(ms), within };
  }
  return { ms: best.ms, within: Math.ceil(best.within) };
}

async function readLastEntry(sql: SQL): Promise<number | undefined> {
  const [row] = await sql.unsafe<{ readonly at: bigint | null }[]>(LAST_ENTRY);
  return row === undefined || row.at === null ? undefined : Number(row.at);
}
