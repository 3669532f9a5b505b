import type { SQL } from "bun";
import { StoreError } from "../storeError.ts";
import { reasonOf } from "./advice.ts";
import { openClient, PostgresPool, type ServerAddress } from "./pool.ts";
import { requireSessions } from "./pooler.ts";
import { PostgresQueries } from "./queries.ts";
import { readServerSchema, type ServerSchema } from "./schema/migrations.ts";
import { PostgresStore } from "./store.ts";
import { sqlState } from "./writer/failures.ts";
import { CLOCK_MS } from "./writer/statements.ts";

/** What `doctor` and a command read of a standby first. */
export interface StandbyReading {
  /** Whether the server is a standby: it repeats the writes of another server, and accepts none itself. */
  readonly isStandby: boolean;
  /**
   * How far the standby is behind the primary. 0: it has applied all that it received. Undefined: this is not known.
   */
  readonly lagMs: number | undefined;
  /** Undefined: it has no tables of tollgate. */
  readonly schema: ServerSchema | undefined;
  /** Whether it has the records of the primary. Undefined: the primary did not answer. */
  readonly isSameDatabase: boolean | undefined;
}

/** How long the primary may take to tell its identity. Reports must work while the primary is gone. */
const PRIMARY_WITHIN_MS = 2000;

/** Longer than the time between two heartbeats of a replica. */
const HEARTBEAT_WITHIN_MS = 10_000;

/**
 * How far a standby is behind. Without a connection to the primary a standby does not know what it misses. A connection
 * that is cut may look open: then the heartbeats of the replicas are old.
 */
export const LAG = `CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver)
    AND NOT EXISTS (SELECT 1 FROM replicas WHERE ended_at IS NULL AND seen_at < ${CLOCK_MS} - ${HEARTBEAT_WITHIN_MS})
  THEN 0 ELSE CAST(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000 AS bigint) END`;

/** Reads the standby without a change, and compares it with the primary. Rejects if the standby cannot be read. */
async function readStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<StandbyReading> {
  const sql = openClient(standby, 2);
  const other = openClient(primary, 1);
  try {
    await requireSessions(sql, standby);
    const wanted = identityInTime(other);
    const [row] = await sql.unsafe<{ readonly is_standby: boolean }[]>(
      "SELECT pg_is_in_recovery() AS is_standby",
    );
    if (row === undefined) throw new Error("no answer");
    const schema = await readServerSchema(sql);
    const lagMs = schema && (await readLag(sql));
    const identity = schema && (await readIdentity(sql));
    const expected = await wanted;
    if (row === undefined) throw new Error("no answer");
    return {
      isStandby: row.is_standby,
      lagMs,
      schema,
      isSameDatabase: identity && expected && isSame(identity, expected),
    };
  } finally {
    for (const client of [sql, other]) void client.close({ timeout: 0 });
  }
}

async function readLag(sql: SQL): Promise<number | undefined> {
  const [row] = await sql.unsafe<{ readonly lag: bigint | null }[]>(`SELECT ${LAG} AS lag`);
  return lagOf(row?.lag ?? null);
}

/** The lag is null if it is not known. It is negative if the clock of the standby is behind that of the primary. */
export function lagOf(lag: bigint | null): number | undefined {
  return lag === null ? undefined : Math.max(0, Number(lag));
}

/** What is wrong with a standby that can be read, and what to do. Undefined: it answers reports. */
function problemOf(found: StandbyReading): string | undefined {
  const { isStandby, schema, isSameDatabase } = found;
  if (!isStandby) return "it is no standby, because it takes writes: name a hot standby";
  if (isSameDatabase === false)
    return "it has another database than the url: name a standby of that one";
  if (schema === undefined) return "it has no tables of tollgate: name a standby of the url";
  if (schema.oldest > schema.known)
    return "a newer version of tollgate has upgraded it, and this version cannot work with it: upgrade this one";
  if (schema.applied < schema.known)
    return `it has schema ${schema.applied} of ${schema.known}: upgrade the database (a start of the gateway does it), and wait until the standby has it`;
  return undefined;
}

/** An open standby. */
export interface OpenStandby {
  readonly store: PostgresStore;
  readonly queries: PostgresQueries;
  readonly found: StandbyReading;
  readonly pool: PostgresPool;
}

/**
 * Opens the standby for reads. What a report records, such as the outcome of an audit, goes to the primary. Rejects with StoreError, which says what to do, if the standby cannot answer reports.
 */
export async function openStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<OpenStandby> {
  const found = await inspectStandby(standby, primary);
  const pool = new PostgresPool({ ...standby, isStandby: true });
  const queries = new PostgresQueries(pool);
  const store = new PostgresStore(pool, queries, new PostgresPool(primary));
  return { store, queries, found, pool };
}

/** Reads the standby. Rejects with StoreError, which says what to do, if it cannot answer reports. */
export async function inspectStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<StandbyReading> {
  const found = await readStandby(standby, primary).catch((cause: unknown) => {
    throw unusable(standby, reasonOf(standby, cause), cause);
  });
  const problem = problemOf(found);
  if (problem !== undefined) throw unusable(standby, problem);
  return found;
}

function unusable({ shownUrl }: ServerAddress, problem: string, cause?: unknown): StoreError {
  return new StoreError(
    `the standby ${shownUrl} of [database] reports_url cannot be used: ${problem}; without reports_url the primary answers reports`,
    { cause },
  );
}

/** What a physical copy has in common with its original. */
interface Identity {
  /** Of the database within its server. */
  readonly oid: string;
  /** Of the server. Undefined: the user may not see it. */
  readonly system: string | undefined;
  /** The first entry of the ledger, which never changes. Undefined: there is none yet. */
  readonly firstEntry: string | undefined;
}

async function identityInTime(sql: SQL): Promise<Identity | undefined> {
  const late = Bun.sleep(PRIMARY_WITHIN_MS).then(() => undefined);
  return await Promise.race([readIdentity(sql).catch(() => undefined), late]);
}

async function readIdentity(sql: SQL): Promise<Identity> {
  const oid = await readText(
    sql,
    "SELECT CAST(oid AS text) AS found FROM pg_database WHERE datname = current_database()",
  );
  if (oid === undefined) throw new Error("no answer");
  const system = await readText(
    sql,
    "SELECT CAST(system_identifier AS text) AS found FROM pg_control_system()",
  );
  const firstEntry = await readText(
    sql,
    "SELECT concat_ws(' ', id, account_id, amount, at) AS found FROM ledger ORDER BY id LIMIT 1",
  );
  return { oid, system, firstEntry };
}

/** Undefined: there is no row or no table, or the user may not see it. */
async function readText(sql: SQL, query: string): Promise<string | undefined> {
  try {
    const [row] = await sql.unsafe<{ readonly found: string }[]>(query);
    return row?.found;
  } catch (error) {
    if (["42501", "42P01"].includes(sqlState(error) ?? "")) return undefined;
    throw error;
  }
}

function isSame(one: Identity, other: Identity): boolean {
  if (one.oid !== other.oid) return false;
  if (one.system !== undefined && other.system !== undefined) return one.system === other.system;
  const isUnknown = one.firstEntry === undefined || other.firstEntry === undefined;
  return isUnknown || one.firstEntry === other.firstEntry;
}
