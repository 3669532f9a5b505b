import { and, eq, gt, sql } from "drizzle-orm";
import { placeholders, responseOwner } from "../schema/schema.ts";
import type { Connection } from "../sqlite.ts";

/** A stored object of the provider's that an account may name again; the id only as SHA-256. */
export interface OwnedObject {
  hash: Uint8Array;
  accountId: number;
  provider: string;
  expiresAt: number;
  /** What a request that continues this response, or refers to this item, has in its prompt by that; 0: not known. */
  historyTokens: number;
}

/** Expired rows go once per so many recorded objects, and so many at a time: faster than they come. */
const PRUNE_EVERY = 256;
const PRUNED_ROWS_MAX = 512;

/** Which provider made a stored object that an account may name, and what it brings into a prompt that names it. */
export interface OwnerTable {
  /** By the SHA-256 of the object's id; undefined for another account's, an expired or an unknown one alike. */
  find(
    hash: Uint8Array,
    accountId: number,
    now: number,
  ): Pick<OwnedObject, "provider" | "historyTokens"> | undefined;
}

export function ownerTable({ db }: Connection): OwnerTable {
  const find = db
    .select({ provider: responseOwner.provider, historyTokens: responseOwner.historyTokens })
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
    find: (hash, accountId, now) => find.get({ hash, accountId, now }),
  };
}

/**
 * Records objects. One that its account has already is its own for longer, one that has expired is
 * taken over. A provider that gives an id of one account to another has lost track of what is whose:
 * such an object is nobody's until it would have expired, which a negative expiry says.
 */
export function prepareRecordOwner({ db }: Connection): (object: OwnedObject, now: number) => void {
  const isExpired = sql`${responseOwner.expiresAt} BETWEEN -${sql.placeholder("now")} AND ${sql.placeholder("now")}`;
  const isOwn = sql`${responseOwner.accountId} = excluded.account_id AND ${responseOwner.expiresAt} > 0`;
  const record = db
    .insert(responseOwner)
    .values(placeholders("hash", "accountId", "provider", "expiresAt", "historyTokens"))
    .onConflictDoUpdate({
      target: responseOwner.hash,
      set: {
        accountId: sql`excluded.account_id`,
        provider: sql`excluded.provider`,
        historyTokens: sql`excluded.history_tokens`,
        expiresAt: sql`CASE WHEN ${isExpired} OR ${isOwn} THEN excluded.expires_at ELSE -excluded.expires_at END`,
      },
    })
    .prepare();
  const prune = db
    .delete(responseOwner)
    .where(
      sql`${responseOwner.hash} IN (SELECT ${responseOwner.hash} FROM ${responseOwner} WHERE ${isExpired} LIMIT ${PRUNED_ROWS_MAX})`,
    )
    .prepare();
  let recorded = 0;
  return (object, now) => {
    if (recorded % PRUNE_EVERY === 0) prune.run({ now });
    recorded += 1;
    record.run({ ...object, hash: Buffer.from(object.hash), now });
  };
}
