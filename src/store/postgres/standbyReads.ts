import type { AuditReport, AuditWatch } from "../audit/audit.ts";
import type { Connection, Values, Visit, Work } from "../connection.ts";
import { StoreParts } from "../parts.ts";
import { QueryBuilder } from "../queryBuilder.ts";
import type { StandbyState, Store } from "../store.ts";
import { NotFoundError, StoreError } from "../storeError.ts";
import { auditServerApart } from "./audit/audit.ts";
import { changeSignal } from "./changes.ts";
import type { ServerAddress } from "./pool.ts";
import type { PostgresQueries } from "./queries.ts";
import { LAG, lagOf, openStandby, type OpenStandby } from "./standby.ts";
import { askForReserve, type OpenServer } from "./store.ts";
import { messageOf } from "./writer/failures.ts";

/** A standby that could not be used is tried again. */
const TRY_AGAIN_MS = 5000;
/** How long a read waits for the standby to have the last change. That usually takes some milliseconds. */
const CATCH_UP_MS = 250;
const LOOK_AGAIN_MS = 10;

/** The store of the primary, with reads from the standby. Only an audit never goes to the primary. */
export class StoreWithStandby extends StoreParts implements Store {
  readonly #queries: StandbyQueries;
  readonly #primary: OpenServer;

  constructor(primary: OpenServer, address: ServerAddress) {
    const queries = new StandbyQueries(primary, address);
    super(queries, (accountId) => askForReserve(primary.queries, accountId), primary.queries);
    this.#queries = queries;
    this.#primary = primary;
  }

  changeSignal(): Promise<string> {
    return changeSignal(this.#queries);
  }

  audit(options?: AuditWatch): Promise<AuditReport> {
    return this.#queries.audit(options);
  }

  isFileReplaced(): boolean {
    return false;
  }

  standby(): Promise<StandbyState> {
    return this.#queries.state();
  }

  async close(): Promise<void> {
    await this.#queries.close();
    await this.#primary.store.close();
  }
}

/**
 * Sends each read to the standby. After a change by these queries the primary answers until the standby has the change. It
 * also answers while the standby cannot be used. Changes go to the primary.
 */
class StandbyQueries extends QueryBuilder implements Connection {
  readonly dialect;
  readonly paths;
  readonly #primary: OpenServer;
  readonly #address: ServerAddress;
  #standby: Promise<OpenStandby> | undefined;
  #problem: string | undefined;
  #failedAtMs = -Infinity;
  /** The place in the log of the last change by these queries, until the standby has it. */
  #awaited: string | undefined;
  #changedAtMs = -Infinity;
  #lagMs: number | undefined;

  constructor(primary: OpenServer, address: ServerAddress) {
    super();
    this.#primary = primary;
    this.#address = address;
    ({ dialect: this.dialect, paths: this.paths } = primary.queries);
  }

  override send(text: string, values: unknown[], isChange: boolean): Promise<unknown[]> {
    const work = (from: PostgresQueries) => from.send(text, values, isChange);
    return isChange ? this.#change(work) : this.#read(work);
  }

  rows<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.#read((from) => from.rows<Row>(text, values));
  }

  row<Row>(text: string, values?: Values): Promise<Row | undefined> {
    return this.#read((from) => from.row<Row>(text, values));
  }

  plainRows<Row extends readonly unknown[]>(text: string): Promise<Row[]> {
    return this.#read((from) => from.plainRows<Row>(text));
  }

  forEach<Row>(text: string, values: Values, visit: Visit<Row>): Promise<void> {
    return this.#read((from) => from.forEach(text, values, visit));
  }

  inSnapshot<Result>(work: Work<Result>): Promise<Result> {
    return this.#read((from) => from.inSnapshot(work));
  }

  change<Row>(text: string, values?: Values): Promise<Row[]> {
    return this.#change((on) => on.change<Row>(text, values));
  }

  inTransaction<Result>(work: Work<Result>): Promise<Result> {
    return this.#change((on) => on.inTransaction(work));
  }

  async #read<Result>(work: (from: PostgresQueries) => Promise<Result>): Promise<Result> {
    const standby = await this.#current();
    if (standby === undefined) return await work(this.#primary.queries);
    try {
      return await work(standby.queries);
    } catch (error) {
      if (!(error instanceof StoreError) || error instanceof NotFoundError) throw error;
      await this.#failed(error);
      return await work(this.#primary.queries);
    }
  }

  async #change<Result>(work: (on: PostgresQueries) => Promise<Result>): Promise<Result> {
    try {
      return await work(this.#primary.queries);
    } finally {
      this.#awaited = await this.#place();
      this.#changedAtMs = performance.now();
    }
  }

  /** Rejects with StoreError while the standby cannot be used. */
  async audit(options?: AuditWatch): Promise<AuditReport> {
    return await auditServerApart((await this.#open()).pool.address, options);
  }

  async state(): Promise<StandbyState> {
    const standby = await this.#current();
    const { shownUrl } = this.#address;
    if (standby !== undefined) return { shownUrl, lagMs: this.#lagMs, problem: undefined };
    const waits = "it does not have the last change of this console yet";
    return { shownUrl, lagMs: this.#lagMs, problem: this.#problem ?? waits };
  }

  async close(): Promise<void> {
    const standby = await this.#standby?.catch(() => undefined);
    await standby?.store.close();
  }

  /** The standby, if it can be used now and has the changes of these queries. */
  async #current(): Promise<OpenStandby | undefined> {
    if (performance.now() - this.#failedAtMs < TRY_AGAIN_MS) return undefined;
    try {
      const standby = await this.#open();
      while (!(await this.#hasChanges(standby))) {
        if (performance.now() - this.#changedAtMs > CATCH_UP_MS) return undefined;
        await Bun.sleep(LOOK_AGAIN_MS);
      }
      return standby;
    } catch (error) {
      await this.#failed(error);
      return undefined;
    }
  }

  async #open(): Promise<OpenStandby> {
    return await (this.#standby ??= openStandby(this.#address, this.#primary.pool.address));
  }

  async #hasChanges({ pool }: OpenStandby): Promise<boolean> {
    const awaited = this.#awaited;
    const [row] = await pool.withStoreErrors(() =>
      pool.client.unsafe<
        {
          readonly is_standby: boolean;
          readonly lag: bigint | null;
          readonly has: boolean | null;
        }[]
      >(
        `SELECT pg_is_in_recovery() AS is_standby, ${LAG} AS lag,
          pg_last_wal_replay_lsn() >= CAST(CAST($1 AS text) AS pg_lsn) AS has`,
        [awaited ?? "0/0"],
      ),
    );
    if (row?.is_standby !== true) throw new StoreError("the standby takes writes by now");
    this.#problem = undefined;
    this.#lagMs = lagOf(row.lag);
    if (row.has === false) return false;
    if (this.#awaited === awaited) this.#awaited = undefined;
    return true;
  }

  async #failed(reason: unknown): Promise<void> {
    const standby = this.#standby;
    this.#standby = undefined;
    this.#problem = messageOf(reason);
    this.#failedAtMs = performance.now();
    this.#lagMs = undefined;
    await (await standby?.catch(() => undefined))?.store.close();
  }

  /**
   * The place of the primary in its log. If the primary does not answer, it may have lost the change: then the place
   * before counts.
   */
  async #place(): Promise<string | undefined> {
    try {
      const row = await this.#primary.queries.row<{ place: string }>(
        "SELECT pg_current_wal_lsn()::text AS place",
      );
      return row?.place;
    } catch {
      return this.#awaited;
    }
  }
}
