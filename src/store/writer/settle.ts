import { and, eq, ne, sql } from "drizzle-orm";
import type { FinalStatus } from "../../contract/account/requestStatus.ts";
import { assert } from "../../lib/assert.ts";
import { placeholders, plannedOnce } from "../schema/columns.ts";
import { chargeRef, ledgerTable } from "../tables/ledger.ts";
import { attempts, heldSum, isRunning, requests, accounts } from "../schema/schema.ts";
import type { Connection } from "../sqlite.ts";

/**
 * One try at a provider. `outcome`: `ok`, the status that it refused with, such as `status 503`, or the word of what went
 * wrong, such as `timeout`; `status`: the provider's HTTP status, if it gave one.
 */
export interface AttemptRecord {
  provider: string;
  outcome: string;
  status: number | null;
  durationMs: number;
}

/** How a request ended. `cost` is the exact price of the tokens given; 0 and no tokens when nothing is billed. */
export interface RequestSettlement {
  publicId: string;
  at: number;
  status: FinalStatus;
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

/** What a request was charged of its cost, and the rest of it. */
export interface Settled {
  charge: bigint;
  writeOff: bigint;
}

/**
 * Ends a request and charges it; triggers count it in the daily totals and in what its key has spent.
 * Its caller holds the transaction. Throws for a request that is not running.
 */
export function prepareSettleRequest(connection: Connection): (end: RequestSettlement) => Settled {
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
  const attempt = db
    .insert(attempts)
    .values(placeholders("requestId", "n", "provider", "outcome", "status", "durationMs"))
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
      const entry = {
        accountId: request.accountId,
        kind: "charge",
        amount: -charge,
        ref: chargeRef(end.publicId),
        actor: null,
        note: null,
        at: end.at,
        refundOf: null,
      } as const;
      ledger.append(entry, request);
    }
    return { charge, writeOff: end.cost - charge };
  };
}

interface RunningRequest {
  id: number;
  accountId: number;
  hold: bigint;
  balance: bigint;
  overdraft: bigint;
  /** Of the account's last ledger row. */
  seq: number;
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
      hold: requests.hold,
      balance: accounts.balance,
      overdraft: accounts.overdraft,
      seq: accounts.ledgerSeq,
    })
    .from(requests)
    .innerJoin(accounts, eq(requests.accountId, accounts.id))
    .where(and(eq(requests.publicId, plannedOnce("publicId")), sql`${requests.status} = 'running'`))
    .prepare();
  const others = db
    .select({ held: heldSum })
    .from(requests)
    .where(
      and(
        eq(requests.accountId, sql.placeholder("accountId")),
        isRunning,
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
      const placeholders = free > request.hold ? free : request.hold;
      return smaller(smaller(cost, placeholders), funds);
    },
  };
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
