import type { AuditReport, AuditWatch } from "../audit/audit.ts";
import { StoreParts } from "../parts.ts";
import type { Store } from "../store.ts";
import { auditServerApart } from "./audit/audit.ts";
import { changeSignal } from "./changes.ts";
import { requireDurableServer } from "./durability.ts";
import { PostgresPool, type ServerAddress } from "./pool.ts";
import { requireSessions } from "./pooler.ts";
import type { UpgradePlan } from "../schema/migrationFiles.ts";
import { PostgresQueries } from "./queries.ts";
import { knownSchema, migrateServer, planUpgrade, type UpgradeWatch } from "./schema/migrations.ts";

/**
 * The store on a PostgreSQL server. `openServer` opens it. Its functions reject with StoreError if the server cannot be used.
 * `records` are the connections for what a read records: a standby takes no writes.
 */
export class PostgresStore extends StoreParts implements Store {
  readonly #pool: PostgresPool;
  readonly #queries: PostgresQueries;
  readonly #records: PostgresPool;

  constructor(pool: PostgresPool, queries: PostgresQueries, records = pool) {
    const ask = (accountId: number) => askForReserve(queries, accountId);
    super(queries, ask, records === pool ? queries : new PostgresQueries(records));
    this.#pool = pool;
    this.#queries = queries;
    this.#records = records;
  }

  changeSignal(): Promise<string> {
    return changeSignal(this.#queries);
  }

  audit(watch?: AuditWatch): Promise<AuditReport> {
    return auditServerApart(this.#pool.address, watch);
  }

  isFileReplaced(): boolean {
    return false;
  }

  async close(): Promise<void> {
    await this.#pool.close();
    if (this.#records !== this.#pool) await this.#records.close();
  }
}

/** An open store, with its connections. */
export interface OpenServer {
  readonly pool: PostgresPool;
  readonly queries: PostgresQueries;
  readonly store: PostgresStore;
}

/**
 * Opens the store, and migrates its schema if needed. `answerWithinMs`: how long a read may take. Rejects with StoreError if
 * the server cannot be reached or is not durable, and if the database has the schema of a newer version or foreign tables.
 */
export async function openServer(
  address: ServerAddress,
  answerWithinMs?: number,
  watch?: UpgradeWatch,
): Promise<OpenServer> {
  const pool = new PostgresPool(address, answerWithinMs);
  try {
    await pool.withStoreErrors(async () => {
      await requireSessions(pool.client, address);
      await requireDurableServer(pool.client);
      await migrateServer(pool.client, knownSchema, watch);
    });
  } catch (error) {
    await pool.close();
    throw error;
  }
  const queries = new PostgresQueries(pool);
  return { pool, queries, store: new PostgresStore(pool, queries) };
}

/** What `openServer` would do to the schema. Changes nothing. Rejects with StoreError. */
export async function planServerUpgrade(address: ServerAddress): Promise<UpgradePlan> {
  const pool = new PostgresPool(address);
  try {
    return await pool.withStoreErrors(async () => {
      await requireSessions(pool.client, address);
      return await planUpgrade(pool.client);
    });
  } finally {
    await pool.close();
  }
}

/** Tells the replicas that money of an account is needed: they give back what no request holds. */
export async function askForReserve(queries: PostgresQueries, accountId: number): Promise<boolean> {
  await queries.change("SELECT pg_notify('tollgate_wanted', $accountId)", {
    accountId: String(accountId),
  });
  return false;
}
