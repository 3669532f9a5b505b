import { lazy } from "../../lib/lazy.ts";
import type { AuditReport, AuditWatch } from "../audit/audit.ts";
import type { ChangeCounter, Connection } from "../connection.ts";
import { StoreParts } from "../parts.ts";
import type { Store } from "../store.ts";
import { auditStore } from "./audit/auditSqlite.ts";
import { auditInWorkers } from "./audit/auditInWorkers.ts";
import { checkAtStart } from "./audit/startCheck.ts";
import { changeCounter, changeSignal } from "./changes.ts";
import { interruptRunning, type Interrupted } from "./interruptRunning.ts";
import { isGatewayRunning } from "./lock.ts";
import { createSchema } from "./schema/migrations.ts";
import {
  checkpointWal,
  connect,
  type Durability,
  type SqliteConnection,
  toStoreError,
} from "./sqlite.ts";

/** The store in a SQLite file. A read or a change blocks this thread. `openStore` opens it. */
export class SqliteStore extends StoreParts implements Store {
  /** True if the database was created, or was empty when it was opened. */
  readonly isNew: boolean;
  readonly #connection: SqliteConnection;
  readonly #path: string;
  readonly #serving: boolean;
  readonly #changes = lazy(() => changeCounter(this.#connection));
  readonly #signal = lazy(() => changeSignal(this.#connection));

  constructor(
    connection: SqliteConnection,
    { path, serving, isNew }: { path: string; serving: boolean; isNew: boolean },
  ) {
    const { queries } = connection;
    super(queries, (accountId) => releaseReserve(queries, path, accountId));
    this.isNew = isNew;
    this.#connection = connection;
    this.#path = path;
    this.#serving = serving;
  }

  /** Answers at once. */
  get changes(): ChangeCounter {
    return this.#changes();
  }

  async changeSignal(): Promise<string> {
    return this.#signal()();
  }

  /**
   * Sets all running requests to `interrupted`, without a charge. The caller holds the instance lock. Throws SQLite's
   * errors; then nothing is changed.
   */
  interruptRunning(): Interrupted {
    return interruptRunning(this.#connection);
  }

  audit(watch?: AuditWatch): Promise<AuditReport> {
    return auditInWorkers(this.#path, this.#auditOptions, watch);
  }

  /** The same audit in this thread. It takes longer, and blocks the thread. */
  auditHere(): Promise<AuditReport> {
    return auditStore(this.#connection, this.#auditOptions);
  }

  get #auditOptions() {
    return { atRest: !isGatewayRunning(this.#path) };
  }

  /** Throws when the store cannot be read. */
  requireReadable(): void {
    this.#connection.sqlite.query("SELECT 1 FROM accounts LIMIT 1").get();
  }

  isFileReplaced(): boolean {
    return this.#connection.file.isReplaced();
  }

  async close(): Promise<void> {
    this.closeNow();
  }

  /** Returns true if the database file alone has all commits, and its WAL is empty. */
  closeNow(): boolean {
    // After a command SQLite does it at the close, if no other connection is open.
    const wal = this.#serving ? checkpointWal(this.#connection) : "kept";
    // Closing would checkpoint again. That may succeed after the first try lost pages, and remove the WAL.
    if (wal !== "failed") this.#connection.sqlite.close(true);
    return wal === "empty";
  }
}

/**
 * Opens the store. Creates the database if needed; `upgradeStore` must have brought an older one to this program's schema.
 * `serving`: the caller holds the instance lock, and the schema and the last rows are checked. Throws StoreError.
 */
export function openStore(options: {
  path: string;
  durability: Durability;
  serving: boolean;
}): SqliteStore {
  const connection = connect(options.path, options.durability);
  try {
    const isNew = createSchema(
      connection,
      () => options.serving || !isGatewayRunning(options.path),
    );
    if (options.serving) checkAtStart(connection, options.path);
    return new SqliteStore(connection, { ...options, isNew });
  } catch (error) {
    connection.sqlite.close();
    throw toStoreError(options.path, error);
  }
}

/** Releases a reserve that a gateway left when it crashed. Returns false if a gateway is running. */
async function releaseReserve(
  queries: Connection,
  path: string,
  accountId: number,
): Promise<boolean> {
  // The lock is also asked before the transaction: the answer can take 200 ms, and the gateway must not wait for that.
  if (isGatewayRunning(path)) return false;
  return await queries.inTransaction(async (transaction) => {
    if (isGatewayRunning(path)) return false;
    await transaction.change("UPDATE accounts SET reserved = 0 WHERE id = $accountId", {
      accountId,
    });
    return true;
  });
}
