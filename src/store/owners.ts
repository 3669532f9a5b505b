import { and, eq, gt, sql } from "drizzle-orm";
import { responseOwner } from "./schema.ts";
import type { Connection } from "./sqlite.ts";

/** Which provider made a stored object that an account may name. */
export interface OwnerTable {
  /** By the SHA-256 of the object's id; undefined for another account's, an expired or an unknown one alike. */
  findProvider(hash: Uint8Array, accountId: number, now: number): string | undefined;
}

export function ownerTable({ db }: Connection): OwnerTable {
  const find = db
    .select({ provider: responseOwner.provider })
    .from(responseOwner)
    .where(
      and(
        eq(responseOwner.hash, sql.placeholder("hash")),
        eq(responseOwner.accountId, sql.placeholder("accountId")),
        gt(responseOwner.expiresAt, sql.placeholder("now")),
      ),
    )
    .prepare();
  return {
    findProvider: (hash, accountId, now) => find.get({ hash, accountId, now })?.provider,
  };
}
