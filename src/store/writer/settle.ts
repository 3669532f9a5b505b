import { and, eq, ne, sql } from "drizzle-orm";
import type { FinalStatus } from "../../contract/account/requestStatus.ts";
import { assert } from "../../lib/assert.ts";
import {
  accounts,
  attempts,
  heldSum,
  isRunning,
  assigned,
  placeholders,
  plannedOnce,
  requests,
} from "../schema/schema.ts";
import { chargeRef, ledgerTable } from "../tables/ledger.ts";
import type { Connection } from "../sqlite.ts";

/** One attempt at a provider. `outcome` is `ok`, an error status such as `status 503`, or a cause such as `timeout`. */
export interface AttemptRecord {
  provider: string;
  outcome: string;
  /** The HTTP status, if the provider sent one. */
  status: number | null;
  durationMs: number;
}

/** How a request ended. `cost` is the exact price of the tokens; no tokens and 0 if nothing is billed. */
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

/** The parts of a cost: charged to the account, and written off. */
export interface Settled {
  charge: bigint;
  writeOff: bigint;
}

/**
 * Sets the final state of a request and charges it. Triggers add it to the daily totals and to the spending of its key.
 * Runs in the caller's transaction. Throws for a request that is not running.
 */
export function prepareSettleRequest(
  connection: Connection,
): (settlement: RequestSettlement) => Settled {
  const { db } = connection;
  const ledger = ledgerTable(connection);
  const findRunning = prepareFindRunning(connection);
  const limitCharge = prepareChargeLimit(connection);
  const updateRequest = db
    .update(requests)
    .set({
      ...assigned("status", "provider", "promptTokens", "cachedTokens", "cacheWriteTokens"),
      ...assigned("completionTokens", "charge", "writeOff", "estimated", "operatorCost"),
      ...assigned("attemptCount", "durationMs", "firstByteMs"),
    })
    .where(eq(requests.id, sql.placeholder("requestId")))
    .prepare();
  const insertAttempt = db
    .insert(attempts)
    .values(placeholders("requestId", "n", "provider", "outcome", "status", "durationMs"))
    .prepare();
  return (settlement) => {
    const request = findRunning(settlement.publicId);
    const charge = limitCharge(request, settlement.cost);
    const writeOff = settlement.cost - charge;
    updateRequest.run({
      ...settlement,
      requestId: request.id,
      charge,
      writeOff,
      estimated: settlement.estimated ? 1 : 0,
      attemptCount: settlement.attempts.length,
    });
    settlement.attempts.forEach((attempt, index) =>
      insertAttempt.run({ ...attempt, requestId: request.id, n: index + 1 }),
    );
    if (settlement.status === "done" || charge > 0n) {
      const entry = {
        accountId: request.accountId,
        kind: "charge",
        amount: -charge,
        ref: chargeRef(settlement.publicId),
        actor: null,
        note: null,
        at: settlement.at,
        refundOf: null,
      } as const;
      ledger.append(entry, request);
    }
    return { charge, writeOff };
  };
}

interface RunningRequest {
  id: number;
  accountId: number;
  hold: bigint;
  balance: bigint;
  overdraft: bigint;
  /** The number of the account's last ledger row. */
  seq: number;
}

/** Throws for a request that is not running. */
function prepareFindRunning({ db }: Connection): (publicId: string) => RunningRequest {
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
  return (publicId) => {
    const request = find.get({ publicId });
    assert(request !== undefined, "a request is settled that is not running");
    return request;
  };
}

/**
 * Limits a charge to the hold, and above it to money that no other running request holds. The rest of the cost is the
 * write-off.
 */
function prepareChargeLimit({ db }: Connection): (request: RunningRequest, cost: bigint) => bigint {
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
  return ({ id, accountId, hold, balance, overdraft }, cost) => {
    assert(cost >= 0n, "a negative cost");
    const funds = balance + overdraft;
    if (cost <= hold) return smaller(cost, funds);
    const free = funds - (others.get({ accountId, id })?.held ?? 0n);
    return smaller(smaller(cost, free > hold ? free : hold), funds);
  };
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
