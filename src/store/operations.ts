import { and, eq, ne, sql } from "drizzle-orm";
import { assert } from "../lib/assert.ts";
import { chargeRef, ledgerTable } from "./ledger.ts";
import { objectOwner, type OwnedObject } from "./owners.ts";
import { promiseKeeper } from "./promise.ts";
import { accounts, attempts, keys, newRowId, requests } from "./schema.ts";
import type { Connection } from "./sqlite.ts";

/** A request as it is admitted; prices are nano-roubles per token, `hold` nano-roubles. */
export interface OpenedRequest {
  publicId: string;
  at: number;
  accountId: number;
  keyId: number;
  endpoint: "chat" | "responses";
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

/** One try at a provider. `outcome` is a short word; `status` the provider's HTTP status, if it gave one. */
export interface AttemptRecord {
  provider: string;
  outcome: string;
  status: number | null;
  durationMs: number;
}

/** How a request ended. `cost` is the exact price of the tokens given; 0 and no tokens when nothing is billed. */
export interface RequestEnd {
  publicId: string;
  at: number;
  status: "done" | "failed" | "cancelled";
  provider: string | null;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
  cost: bigint;
  estimated: boolean;
  operatorCost: bigint | null;
  attempts: readonly AttemptRecord[];
  durationMs: number;
  firstByteMs: number | null;
}

/** What the writer does, in the order it was asked. */
export type WriteOperation =
  | { kind: "open"; request: OpenedRequest }
  | { kind: "end"; end: RequestEnd }
  | { kind: "own"; object: OwnedObject }
  | { kind: "touch"; keyId: number; at: number };

/** What was charged at the end of a request; both 0 for the other operations. */
export interface WriteResult {
  charge: bigint;
  writeOff: bigint;
}

const NOTHING: WriteResult = { charge: 0n, writeOff: 0n };

/** Runs one operation. Its caller holds the transaction. */
export type RunOperation = (operation: WriteOperation) => WriteResult;

export function operationRunner(connection: Connection): RunOperation {
  const open = requestOpener(connection);
  const end = requestEnder(connection);
  const own = objectOwner(connection);
  const { db } = connection;
  const touch = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  return (operation) => {
    switch (operation.kind) {
      case "open":
        open(operation.request);
        return NOTHING;
      case "end":
        return end(operation.end);
      case "own":
        own(operation.object);
        return NOTHING;
      case "touch":
        touch.run({ at: operation.at, keyId: operation.keyId });
        return NOTHING;
    }
  };
}

function requestOpener(connection: Connection): (request: OpenedRequest) => void {
  const keepPromise = promiseKeeper(connection);
  const insert = connection.db
    .insert(requests)
    .values({
      id: newRowId,
      publicId: sql.placeholder("publicId"),
      at: sql.placeholder("at"),
      accountId: sql.placeholder("accountId"),
      keyId: sql.placeholder("keyId"),
      endpoint: sql.placeholder("endpoint"),
      model: sql.placeholder("model"),
      stream: sql.placeholder("stream"),
      status: "running",
      priceInput: sql.placeholder("priceInput"),
      priceCachedInput: sql.placeholder("priceCachedInput"),
      priceCacheWrite: sql.placeholder("priceCacheWrite"),
      priceOutput: sql.placeholder("priceOutput"),
      hold: sql.placeholder("hold"),
    })
    .prepare();
  return (request) => {
    keepPromise(request);
    insert.run({ ...request });
  };
}

function requestEnder(connection: Connection): (end: RequestEnd) => WriteResult {
  const { db } = connection;
  const ledger = ledgerTable(connection);
  const chargeable = chargeLimiter(connection);
  const finish = db
    .update(requests)
    .set({
      status: sql`${sql.placeholder("status")}`,
      provider: sql`${sql.placeholder("provider")}`,
      promptTokens: sql`${sql.placeholder("promptTokens")}`,
      cachedTokens: sql`${sql.placeholder("cachedTokens")}`,
      cacheWriteTokens: sql`${sql.placeholder("cacheWriteTokens")}`,
      completionTokens: sql`${sql.placeholder("completionTokens")}`,
      charge: sql`${sql.placeholder("charge")}`,
      writeOff: sql`${sql.placeholder("writeOff")}`,
      estimated: sql`${sql.placeholder("estimatedFlag")}`,
      operatorCost: sql`${sql.placeholder("operatorCost")}`,
      attemptCount: sql`${sql.placeholder("attemptCount")}`,
      durationMs: sql`${sql.placeholder("durationMs")}`,
      firstByteMs: sql`${sql.placeholder("firstByteMs")}`,
    })
    .where(eq(requests.id, sql.placeholder("requestId")))
    .prepare();
  const spend = db
    .update(keys)
    .set({ spent: sql`${keys.spent} + ${sql.placeholder("charge")}` })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  const attempt = db
    .insert(attempts)
    .values({
      requestId: sql.placeholder("requestId"),
      n: sql.placeholder("n"),
      provider: sql.placeholder("provider"),
      outcome: sql.placeholder("outcome"),
      status: sql.placeholder("status"),
      durationMs: sql.placeholder("durationMs"),
    })
    .prepare();
  return (end) => {
    const request = chargeable.find(end.publicId);
    const charge = chargeable.limit(request, end.cost);
    finish.run({
      ...end,
      requestId: request.id,
      charge,
      writeOff: end.cost - charge,
      estimatedFlag: end.estimated ? 1 : 0,
      attemptCount: end.attempts.length,
    });
    end.attempts.forEach((record, at) =>
      attempt.run({ ...record, requestId: request.id, n: at + 1 }),
    );
    if (end.status === "done" || charge > 0n) {
      ledger.append({
        accountId: request.accountId,
        kind: "charge",
        amount: -charge,
        ref: chargeRef(end.publicId),
        actor: null,
        note: null,
        at: end.at,
      });
    }
    if (charge > 0n) spend.run({ charge, keyId: request.keyId });
    return { charge, writeOff: end.cost - charge };
  };
}

interface RunningRequest {
  id: number;
  accountId: number;
  keyId: number;
  hold: bigint;
  balance: bigint;
  overdraft: bigint;
}

/**
 * A request may always be charged up to its hold, and beyond it only with money that no other open
 * request was promised. What is left of the cost is the operator's write-off.
 */
function chargeLimiter({ db }: Connection) {
  const find = db
    .select({
      id: requests.id,
      accountId: requests.accountId,
      keyId: requests.keyId,
      hold: requests.hold,
      balance: accounts.balance,
      overdraft: accounts.overdraft,
    })
    .from(requests)
    .innerJoin(accounts, eq(requests.accountId, accounts.id))
    .where(
      and(eq(requests.publicId, sql.placeholder("publicId")), sql`${requests.status} = 'running'`),
    )
    .prepare();
  const others = db
    .select({ held: sql<bigint>`coalesce(sum(${requests.hold}), 0)`.mapWith(BigInt) })
    .from(requests)
    .where(
      and(
        eq(requests.accountId, sql.placeholder("accountId")),
        sql`${requests.status} = 'running'`,
        ne(requests.id, sql.placeholder("id")),
      ),
    )
    .prepare();
  return {
    find(publicId: string): RunningRequest {
      const request = find.get({ publicId });
      assert(request !== undefined, "a request ends that is not running");
      return request;
    },
    limit(request: RunningRequest, cost: bigint): bigint {
      assert(cost >= 0n, "a negative cost");
      const funds = request.balance + request.overdraft;
      if (cost <= request.hold) return smaller(cost, funds);
      const free =
        funds - (others.get({ accountId: request.accountId, id: request.id })?.held ?? 0n);
      const bound = free > request.hold ? free : request.hold;
      return smaller(smaller(cost, bound), funds);
    },
  };
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
