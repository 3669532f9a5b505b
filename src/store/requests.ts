import { and, asc, desc, eq, sql } from "drizzle-orm";
import { accounts, attempts, keys, requests } from "./schema.ts";
import type { AttemptRecord } from "./operations.ts";
import type { Connection } from "./sqlite.ts";

export const requestStatuses = ["running", "done", "failed", "cancelled", "interrupted"] as const;
export type RequestStatus = (typeof requestStatuses)[number];

/** A kept request; `key` is the key's public id. Amounts are nano-roubles. */
export interface RequestRow {
  id: string;
  at: number;
  account: string;
  key: string;
  endpoint: "chat" | "responses";
  model: string;
  provider: string | null;
  stream: boolean;
  status: RequestStatus;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
  estimated: boolean;
  priceInput: bigint;
  priceCachedInput: bigint;
  priceCacheWrite: bigint;
  priceOutput: bigint;
  hold: bigint;
  charge: bigint;
  writeOff: bigint;
  operatorCost: bigint | null;
  attemptCount: number;
  durationMs: number | null;
  firstByteMs: number | null;
}

export interface RequestTable {
  /** Newest first. */
  list(filter: {
    account?: string | undefined;
    status?: RequestStatus | undefined;
    limit: number;
  }): RequestRow[];
  find(publicId: string): RequestRow | undefined;
  attempts(publicId: string): AttemptRecord[];
  /** Ends what an earlier life of the gateway left running; returns how many, and the sum of their holds. */
  interruptRunning(): { count: number; held: bigint };
}

export function requestTable({ db }: Connection): RequestTable {
  const rows = () =>
    db
      .select({
        id: requests.publicId,
        at: requests.at,
        account: accounts.name,
        key: keys.publicId,
        endpoint: requests.endpoint,
        model: requests.model,
        provider: requests.provider,
        stream: requests.stream,
        status: requests.status,
        promptTokens: requests.promptTokens,
        cachedTokens: requests.cachedTokens,
        cacheWriteTokens: requests.cacheWriteTokens,
        completionTokens: requests.completionTokens,
        estimated: requests.estimated,
        priceInput: requests.priceInput,
        priceCachedInput: requests.priceCachedInput,
        priceCacheWrite: requests.priceCacheWrite,
        priceOutput: requests.priceOutput,
        hold: requests.hold,
        charge: requests.charge,
        writeOff: requests.writeOff,
        operatorCost: requests.operatorCost,
        attemptCount: requests.attemptCount,
        durationMs: requests.durationMs,
        firstByteMs: requests.firstByteMs,
      })
      .from(requests)
      .innerJoin(accounts, eq(requests.accountId, accounts.id))
      .innerJoin(keys, eq(requests.keyId, keys.id));
  return {
    list: ({ account, status, limit }) =>
      rows()
        .where(
          and(
            account === undefined ? undefined : eq(accounts.name, account),
            status === undefined ? undefined : eq(requests.status, status),
          ),
        )
        .orderBy(desc(requests.id))
        .limit(limit)
        .all(),
    find: (publicId) => rows().where(eq(requests.publicId, publicId)).get(),
    attempts: (publicId) =>
      db
        .select({
          provider: attempts.provider,
          outcome: attempts.outcome,
          status: attempts.status,
          durationMs: attempts.durationMs,
        })
        .from(attempts)
        .innerJoin(requests, eq(attempts.requestId, requests.id))
        .where(eq(requests.publicId, publicId))
        .orderBy(asc(attempts.n))
        .all(),
    interruptRunning() {
      const ended = db
        .update(requests)
        .set({ status: "interrupted" })
        .where(sql`${requests.status} = 'running'`)
        .returning({ hold: requests.hold })
        .all();
      return { count: ended.length, held: ended.reduce((sum, { hold }) => sum + hold, 0n) };
    },
  };
}
