import { asc, desc, eq, lte } from "drizzle-orm";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { attempts, requests } from "../schema/schema.ts";
import type { Steps } from "../steps.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";
import { LAST_ENTRY } from "./lastEntry.ts";
import { onlyAttempt, receiptQuery, type ReceiptRow } from "./receipts.ts";
import { requestList, type ListRequests } from "./requestList.ts";

export interface RequestTable {
  readonly list: ListRequests;
  find(publicId: string): Steps<ReceiptRow | undefined>;
  /** Undefined if the request is unknown or of another account. */
  receipt(accountId: number, publicId: string): Steps<ReceiptRow | undefined>;
  /** The ended attempts, oldest first. */
  attempts(publicId: string): Steps<AttemptRecord[]>;
  /** The admission time of the newest request up to this time. */
  newestAt(nowMs: number): Steps<number | undefined>;
  /** The time of the last entry of requests and ledger, as `LAST_ENTRY` says. */
  lastEntryAt(): Steps<number | undefined>;
}

export function requestTable(connection: Connection): RequestTable {
  const { db } = connection;
  const find = receiptReader(connection);
  return {
    list: requestList(connection),
    find,
    *receipt(accountId, publicId) {
      const found = yield* find(publicId);
      return found?.accountId === accountId ? found : undefined;
    },
    *attempts(publicId) {
      const recorded = yield* connection.all(
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
          .orderBy(asc(attempts.n)),
      );
      return recorded.length > 0 ? recorded : onlyAttempt(yield* find(publicId));
    },
    *newestAt(nowMs) {
      const row = yield* connection.first(
        db
          .select({ at: requests.at })
          .from(requests)
          .where(lte(requests.at, nowMs))
          .orderBy(desc(requests.at))
          .limit(1),
      );
      return row?.at;
    },
    *lastEntryAt() {
      const [row] = yield* connection.rows<{ at: bigint | null }>(LAST_ENTRY);
      return row === undefined || row.at === null ? undefined : Number(row.at);
    },
  };
}

function receiptReader(connection: Connection): RequestTable["find"] {
  const { db, dialect } = connection;
  const statement = lazy(() =>
    connection.prepare(
      receiptQuery(db).where(eq(requests.publicId, dialect.plannedOnce("publicId"))),
    ),
  );
  return (publicId) => statement().first({ publicId });
}
