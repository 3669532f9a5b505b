import { asc, desc, eq, lte, sql } from "drizzle-orm";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { attempts, requests } from "../schema/schema.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";
import { LAST_ENTRY } from "./lastEntry.ts";
import { onlyAttempt, receiptQuery, type ReceiptRow } from "./receipts.ts";
import { requestList } from "./requestList.ts";

export function requestTable(connection: Connection) {
  const { db } = connection;
  const find = receiptReader(connection);
  return {
    list: requestList(connection),
    find,
    async receipt(accountId: number, publicId: string): Promise<ReceiptRow | undefined> {
      const found = await find(publicId);
      return found?.accountId === accountId ? found : undefined;
    },
    async attempts(publicId: string): Promise<AttemptRecord[]> {
      const recorded = await connection.all(
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
      return recorded.length > 0 ? recorded : onlyAttempt(await find(publicId));
    },
    async newestAt(nowMs: number): Promise<number | undefined> {
      const row = await connection.first(
        db
          .select({ at: requests.at })
          .from(requests)
          .where(lte(requests.at, nowMs))
          .orderBy(desc(requests.at))
          .limit(1),
      );
      return row?.at;
    },
    async lastEntryAt(): Promise<number | undefined> {
      const [row] = await connection.rows<{ at: bigint | null }>(LAST_ENTRY);
      return row === undefined || row.at === null ? undefined : Number(row.at);
    },
  };
}

function receiptReader(connection: Connection) {
  const { db } = connection;
  const statement = lazy(() =>
    connection.prepare(receiptQuery(db).where(eq(requests.publicId, sql.placeholder("publicId")))),
  );
  return (publicId: string): Promise<ReceiptRow | undefined> => statement().first({ publicId });
}
