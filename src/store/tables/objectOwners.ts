import { and, eq, gt, sql } from "drizzle-orm";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { responseOwner } from "../schema/schema.ts";

/** A stored object of a provider, which belongs to an account. `hash` is the SHA-256 of its id. */
export interface OwnedObject {
  hash: Uint8Array;
  accountId: number;
  provider: string;
  expiresAt: number;
  /** The prompt tokens that this object adds to a request that names it; 0: unknown. */
  historyTokens: number;
}

export function ownerTable(connection: Connection) {
  const { hash, accountId, provider, expiresAt, historyTokens } = responseOwner;
  const find = lazy(() =>
    connection.prepare(
      connection.db
        .select({ provider, historyTokens })
        .from(responseOwner)
        .where(
          and(
            eq(hash, sql.placeholder("hash")),
            eq(accountId, sql.placeholder("accountId")),
            gt(expiresAt, sql.placeholder("now")),
          ),
        ),
    ),
  );
  return {
    find: (
      idHash: Uint8Array,
      account: number,
      now: number,
    ): Promise<Pick<OwnedObject, "provider" | "historyTokens"> | undefined> =>
      find().first({ hash: Buffer.from(idHash), accountId: account, now }),
  };
}
