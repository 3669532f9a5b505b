import { eq, sql, and, inArray, lt, ne } from "drizzle-orm";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import { placeholders, newRowId } from "../schema/columns.ts";
import { prepareRecordOwner, type OwnedObject } from "../tables/objectOwners.ts";
import {
  requests,
  keys,
  heldSum,
  isRunning,
  accounts,
  attempts,
  retention,
} from "../schema/schema.ts";
import { prepareSettleRequest, type RequestSettlement, type Settled } from "./settle.ts";
import type { Connection } from "../sqlite.ts";
import { assert } from "../../lib/assert.ts";
import { lazy } from "../../lib/lazy.ts";

/** A request as it is admitted; prices are nano-roubles per token, `hold` nano-roubles. */
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
  /** All that the account's open requests were promised at its admission, its own hold included. */
  promised: bigint;
}

/** What the writer does, in the order it was asked. */
export type WriteOperation =
  | { kind: "openRequest"; request: OpenedRequest }
  | { kind: "settleRequest"; settlement: RequestSettlement }
  | { kind: "recordOwners"; objects: readonly OwnedObject[]; at: number }
  | { kind: "touchKey"; keyId: number; at: number }
  /** Changes nothing, but needs room as every change does. */
  | { kind: "probe" }
  /** Folds some of the ended requests that were admitted before this time. */
  | { kind: "fold"; before: number };

/** What was charged at the end of a request; both amounts are 0 for the other operations. */
export interface WriteResult extends Settled {
  /** How many requests a fold removed. */
  folded?: number;
}

const NOTHING: WriteResult = { charge: 0n, writeOff: 0n };

/** Runs one operation. Its caller holds the transaction. */
export type RunOperation = (operation: WriteOperation) => WriteResult;

export function prepareOperations(connection: Connection): RunOperation {
  const open = prepareOpenRequest(connection);
  const end = prepareSettleRequest(connection);
  const own = prepareRecordOwner(connection);
  const fold = prepareFold(connection);
  const touch = prepareTouchKey(connection);
  const probe = prepareProbe(connection, touch);
  return (operation) => {
    switch (operation.kind) {
      case "openRequest":
        open(operation.request);
        return NOTHING;
      case "settleRequest":
        return end(operation.settlement);
      case "recordOwners":
        for (const object of operation.objects) own(object, operation.at);
        return NOTHING;
      case "touchKey":
        touch(operation.keyId, operation.at);
        return NOTHING;
      case "probe":
        probe();
        return NOTHING;
      case "fold":
        return { ...NOTHING, folded: fold(operation.before) };
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

/** SQLite writes each page that was changed, also where it was changed back; an update that changes nothing is not written. */
function prepareProbe({ db }: Connection, touch: TouchKey): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    touch(key.id, (key.lastUsedAt ?? 0) + 1);
    touch(key.id, key.lastUsedAt);
  };
}

function prepareOpenRequest(connection: Connection): (request: OpenedRequest) => void {
  const requireFunds = prepareHoldCheck(connection);
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
    requireFunds(request);
    insert.run({ ...request });
  };
}

/** The money that was promised to a request is gone before its row came into the books. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
}

/** What is held for a request, and all that its account's open requests were promised then, itself included. */
interface PromisedRequest {
  readonly accountId: number;
  readonly hold: bigint;
  readonly promised: bigint;
}

/**
 * Refuses a request whose account cannot pay its hold any more. What is promised in memory becomes known to
 * others with the row: until then a debit, a lower overdraft or a charge beyond its own hold may take it. So
 * at every moment the books can pay all that is held in them. Throws InsufficientFunds.
 */
function prepareHoldCheck({ db }: Connection): (request: PromisedRequest) => void {
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
  return ({ accountId, hold, promised }) => {
    const account = funds.get({ accountId });
    assert(account !== undefined, "a request of no account");
    const spendable = account.balance + account.overdraft;
    // Whatever is held in the books was promised before, so as a rule nothing need be added up.
    if (promised <= spendable) return;
    const held = running.get({ accountId })?.held ?? 0n;
    if (held + hold > spendable)
      throw new InsufficientFunds("the account cannot pay the hold any more");
  };
}

/** How many requests go in one transaction: it must not keep charges waiting. */
export const FOLDED_AT_ONCE = 50;

/**
 * Folds requests: removes ended ones that were admitted before a time, with their attempts. Their
 * daily totals and ledger rows stay. Returns how many: less than it may at once when none are left. Its caller holds the transaction.
 */
function prepareFold({ db }: Connection): (before: number) => number {
  const statements = lazy(() => ({
    keepSince: db
      .update(retention)
      .set({ retentionStart: sql`${sql.placeholder("since")}` })
      .where(lt(retention.retentionStart, sql.placeholder("since")))
      .prepare(),
    oldest: db
      .select({ id: requests.id, at: requests.at })
      .from(requests)
      .where(and(lt(requests.at, sql.placeholder("before")), ne(requests.status, "running")))
      .orderBy(requests.at)
      .limit(FOLDED_AT_ONCE)
      .prepare(),
  }));
  return (before) => {
    const { keepSince, oldest } = statements();
    const folded = oldest.all({ before });
    const newest = folded.at(-1);
    if (!newest) return 0;
    // No later than what is really gone: more than that is still told apart.
    keepSince.run({ since: newest.at + 1 });
    const ids = folded.map(({ id }) => id);
    db.delete(attempts).where(inArray(attempts.requestId, ids)).run();
    db.delete(requests).where(inArray(requests.id, ids)).run();
    return ids.length;
  };
}
