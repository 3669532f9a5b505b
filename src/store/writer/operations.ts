import { eq, sql, and, inArray, lt, ne } from "drizzle-orm";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import {
  accounts,
  attempts,
  heldSum,
  isRunning,
  keys,
  newRowId,
  placeholders,
  requests,
  retention,
} from "../schema/schema.ts";
import { prepareRecordOwner, type OwnedObject } from "../tables/objectOwners.ts";
import { prepareSettleRequest, type RequestSettlement, type Settled } from "./settle.ts";
import type { Connection } from "../sqlite.ts";
import { assert } from "../../lib/assert.ts";
import { lazy } from "../../lib/lazy.ts";

/** An admitted request. Prices are nano-roubles per token, `hold` is nano-roubles. */
export interface OpenedRequest {
  publicId: string;
  at: number;
  accountId: number;
  keyId: number;
  endpoint: Endpoint;
  model: string;
  stream: boolean;
  priceInput: bigint;
  priceCachedInput: bigint;
  priceCacheWrite: bigint;
  priceOutput: bigint;
  hold: bigint;
  /** The sum of the account's holds in memory at its admission, with its own. */
  heldTotal: bigint;
}

/** One write. The writer performs them in the order of the calls. */
export type WriteOperation =
  | { kind: "openRequest"; request: OpenedRequest }
  | { kind: "settleRequest"; settlement: RequestSettlement }
  | { kind: "recordOwners"; objects: readonly OwnedObject[]; at: number }
  | { kind: "touchKey"; keyId: number; at: number }
  /** Changes nothing, but needs disk space like a change. */
  | { kind: "probe" }
  /** Folds one batch of settled requests that were admitted before this time. */
  | { kind: "fold"; before: number };

/** The amounts of a settled request; 0 for the other operations. */
export interface WriteResult extends Settled {
  /** The number of requests that a fold removed. */
  folded?: number;
}

const NOTHING_CHARGED: WriteResult = { charge: 0n, writeOff: 0n };

/** Runs one operation in the caller's transaction. */
export type RunOperation = (operation: WriteOperation) => WriteResult;

export function prepareOperations(connection: Connection): RunOperation {
  const openRequest = prepareOpenRequest(connection);
  const settleRequest = prepareSettleRequest(connection);
  const recordOwner = prepareRecordOwner(connection);
  const fold = prepareFold(connection);
  const touchKey = prepareTouchKey(connection);
  const probe = prepareProbe(connection, touchKey);
  return (operation) => {
    switch (operation.kind) {
      case "openRequest":
        openRequest(operation.request);
        return NOTHING_CHARGED;
      case "settleRequest":
        return settleRequest(operation.settlement);
      case "recordOwners":
        for (const object of operation.objects) recordOwner(object, operation.at);
        return NOTHING_CHARGED;
      case "touchKey":
        touchKey(operation.keyId, operation.at);
        return NOTHING_CHARGED;
      case "probe":
        probe();
        return NOTHING_CHARGED;
      case "fold":
        return { ...NOTHING_CHARGED, folded: fold(operation.before) };
    }
  };
}

type TouchKey = (keyId: number, at: number | null) => void;

function prepareTouchKey({ db }: Connection): TouchKey {
  const touch = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  return (keyId, at) => {
    touch.run({ at, keyId });
  };
}

/** Changes a row and changes it back. SQLite writes the page then; it writes no page for an update without a change. */
function prepareProbe({ db }: Connection, touchKey: TouchKey): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    touchKey(key.id, (key.lastUsedAt ?? 0) + 1);
    touchKey(key.id, key.lastUsedAt);
  };
}

function prepareOpenRequest(connection: Connection): (request: OpenedRequest) => void {
  const checkHold = prepareHoldCheck(connection);
  const insert = connection.db
    .insert(requests)
    .values({
      id: newRowId,
      ...placeholders("publicId", "at", "accountId", "keyId", "endpoint", "model", "stream"),
      status: "running",
      ...placeholders("priceInput", "priceCachedInput", "priceCacheWrite", "priceOutput", "hold"),
    })
    .prepare();
  return (request) => {
    checkHold(request);
    insert.run({ ...request });
  };
}

/** The account cannot pay the hold any more when the request's row is written. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
}

type CheckHold = (request: Pick<OpenedRequest, "accountId" | "hold" | "heldTotal">) => void;

/**
 * Refuses a request whose account cannot pay its hold any more. A hold is in memory before it is in the database. In
 * between, a debit, a lower overdraft or a charge above its own hold may take the money. With this check each account
 * can always pay all holds in the database. Throws InsufficientFunds.
 */
function prepareHoldCheck({ db }: Connection): CheckHold {
  const funds = db
    .select({ balance: accounts.balance, overdraft: accounts.overdraft })
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder("accountId")))
    .prepare();
  const running = db
    .select({ held: heldSum })
    .from(requests)
    .where(and(eq(requests.accountId, sql.placeholder("accountId")), isRunning))
    .prepare();
  return ({ accountId, hold, heldTotal }) => {
    const account = funds.get({ accountId });
    assert(account !== undefined, "a request without an account");
    const spendable = account.balance + account.overdraft;
    // Holds in the database are part of `heldTotal`, so the sum is rarely needed.
    if (heldTotal <= spendable) return;
    const held = running.get({ accountId })?.held ?? 0n;
    if (held + hold > spendable)
      throw new InsufficientFunds("the account cannot pay the hold any more");
  };
}

/** Requests of one fold. A small transaction does not delay charges. */
export const FOLD_BATCH = 50;

/**
 * Removes a batch of settled requests that were admitted before a time, with their attempts. Their daily totals and
 * ledger rows stay. Returns their number: less than FOLD_BATCH when none are left. Runs in the caller's transaction.
 */
function prepareFold({ db }: Connection): (before: number) => number {
  const statements = lazy(() => ({
    moveRetentionStart: db
      .update(retention)
      .set({ retentionStart: sql`${sql.placeholder("since")}` })
      .where(lt(retention.retentionStart, sql.placeholder("since")))
      .prepare(),
    oldest: db
      .select({ id: requests.id, at: requests.at })
      .from(requests)
      .where(and(lt(requests.at, sql.placeholder("before")), ne(requests.status, "running")))
      .orderBy(requests.at)
      .limit(FOLD_BATCH)
      .prepare(),
  }));
  return (before) => {
    const { moveRetentionStart, oldest } = statements();
    const folded = oldest.all({ before });
    const newest = folded.at(-1);
    if (!newest) return 0;
    // Not `before`: newer requests are still there.
    moveRetentionStart.run({ since: newest.at + 1 });
    const ids = folded.map(({ id }) => id);
    db.delete(attempts).where(inArray(attempts.requestId, ids)).run();
    db.delete(requests).where(inArray(requests.id, ids)).run();
    return ids.length;
  };
}
