import { assert } from "../../lib/assert.ts";
import { lazyParts } from "../../lib/lazy.ts";
import type { OnAuditProgress } from "../audit/auditProgress.ts";
import { NotFoundError, StoreError } from "../storeError.ts";
import { startServerAudit } from "./audit/audit.ts";
import type { ServerAddress } from "./pool.ts";
import { LAG, lagOf, openStandby, type OpenStandby } from "./standby.ts";
import type { StandbyState, Store } from "../store.ts";
import type { BackgroundAudit } from "../audit/audit.ts";
import type { OpenServer } from "./store.ts";
import { messageOf } from "./writer/failures.ts";

/** A standby that could not be used is tried again. */
const TRY_AGAIN_MS = 5000;
/** A standby usually has a change some milliseconds later. So long reads wait for it after a change. */
const CATCH_UP_MS = 250;
const LOOK_AGAIN_MS = 10;

/** A store whose reads are those of a standby. */
export interface StoreWithStandby extends Store {
  standby(): Promise<StandbyState>;
}

type Parts =
  | "accounts"
  | "keys"
  | "ledger"
  | "requests"
  | "vouchers"
  | "usage"
  | "reports"
  | "noticeCauses";

/**
 * The store of the primary, with reads from the standby. After a change by this store the primary answers until the standby
 * has the change. It also answers while the standby cannot be used. Only an audit never goes to the primary.
 */
export function withStandby(primary: OpenServer, address: ServerAddress): StoreWithStandby {
  const { store } = primary;
  const reader = new StandbyReader(primary, address);
  const part = <Name extends Parts>(name: Name): Store[Name] =>
    mapped(
      store[name],
      (call) =>
        (...args) =>
          reader.read((from) => functionOf(from[name], call)(...args)),
    );
  const parts = lazyParts({
    accounts: () => part("accounts"),
    keys: () => part("keys"),
    ledger: () => part("ledger"),
    requests: () => part("requests"),
    vouchers: () => part("vouchers"),
    usage: () => part("usage"),
    reports: () => part("reports"),
    noticeCauses: () => part("noticeCauses"),
    owners: () => store.owners,
    notices: () => store.notices,
    admin: () =>
      mapped(
        store.admin,
        (call) =>
          (...args) =>
            reader.change(() => functionOf(store.admin, call)(...args)),
      ),
  });
  return Object.assign(parts, {
    changeSignal: () => reader.read((from) => from.changeSignal()),
    auditInParallel: () => reader.audit((from) => from.auditInParallel()),
    auditInBackground: (onProgress: OnAuditProgress) => reader.auditInBackground(onProgress),
    isFileReplaced: () => false,
    standby: () => reader.state(),
    async close() {
      await reader.close();
      return await store.close();
    },
  });
}

type Call = (...args: readonly unknown[]) => Promise<unknown>;

function functionOf(part: object, name: string): Call {
  const found = (part as Readonly<Record<string, Call>>)[name];
  assert(found !== undefined, "both stores have the same functions");
  return found;
}

/** Makes a part with the same functions: `make` gets the name of each function. */
function mapped<Part extends object>(part: Part, make: (name: string) => Call): Part {
  return Object.fromEntries(Object.keys(part).map((name) => [name, make(name)])) as Part;
}

class StandbyReader {
  readonly #primary: OpenServer;
  readonly #address: ServerAddress;
  #standby: Promise<OpenStandby> | undefined;
  #problem: string | undefined;
  #failedAtMs = -Infinity;
  /** The place in the log of the last change by this store, until the standby has it. */
  #awaited: string | undefined;
  #changedAtMs = -Infinity;
  #lagMs: number | undefined;

  constructor(primary: OpenServer, address: ServerAddress) {
    this.#primary = primary;
    this.#address = address;
  }

  async read<Result>(work: (from: Store) => Promise<Result>): Promise<Result> {
    const standby = await this.#current();
    if (standby === undefined) return await work(this.#primary.store);
    try {
      return await work(standby.store);
    } catch (error) {
      if (!(error instanceof StoreError) || error instanceof NotFoundError) throw error;
      await this.#failed(error);
      return await work(this.#primary.store);
    }
  }

  async change<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } finally {
      this.#awaited = await this.#place();
      this.#changedAtMs = performance.now();
    }
  }

  /** Rejects with StoreError while the standby cannot be used. */
  async audit<Result>(work: (from: Store) => Promise<Result>): Promise<Result> {
    return await work((await this.#open()).store);
  }

  auditInBackground(onProgress: OnAuditProgress): BackgroundAudit {
    let running: BackgroundAudit | undefined;
    let isEnded = false;
    const run = async () => {
      const { pool } = await this.#open();
      if (!isEnded) running = startServerAudit(pool.address, onProgress);
      return await (running?.report ?? new Promise<never>(() => {}));
    };
    return {
      report: run(),
      end() {
        isEnded = true;
        running?.end();
      },
    };
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

  /** The standby, if it can be used now and has the changes of this store. */
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

  /** How far the primary has written. Undefined: it does not answer, and then its change is not sure either. */
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
