import { and, asc, desc, eq, inArray, ne, sql, type SQL } from "drizzle-orm";
import { attempts, isRunning, requests } from "./requestSchema.ts";
import { accounts, keys } from "./schema.ts";
import type { AttemptRecord } from "./settle.ts";
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
    list({ account, status, limit }) {
      // Only ids are put in order: of the few that are not done the index has all that this takes.
      const latest = db
        .select({ id: requests.id })
        .from(requests)
        .where(
          and(
            account === undefined ? undefined : ofAccount(account),
            status === undefined ? undefined : eq(requests.status, status),
            status === undefined || status === "done" ? undefined : ne(requests.status, "done"),
          ),
        )
        .orderBy(desc(requests.id))
        .limit(limit);
      return rows().where(inArray(requests.id, latest)).orderBy(desc(requests.id)).all();
    },
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
        .where(isRunning)
        .returning({ hold: requests.hold })
        .all();
      return { count: ended.length, held: ended.reduce((sum, { hold }) => sum + hold, 0n) };
    },
  };
}

/** By the id in the requests themselves: by the name in a join, SQLite would look at every request. */
function ofAccount(name: string): SQL {
  return sql`${requests.accountId} = (SELECT ${accounts.id} FROM ${accounts} WHERE ${accounts.name} = ${name})`;
}
