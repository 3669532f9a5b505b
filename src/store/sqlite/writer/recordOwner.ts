import { sql } from "drizzle-orm";
import { columnsOf, placeholders, responseOwner } from "../../schema/schema.ts";
import type { OwnedObject } from "../../tables/objectOwners.ts";
import type { SqliteConnection } from "../sqlite.ts";

/** Once for each PRUNE_EVERY records, up to PRUNED_ROWS_MAX expired rows are deleted. */
const PRUNE_EVERY = 256;
const PRUNED_ROWS_MAX = 512;

/**
 * Records an owner. An object of the same account gets the later expiry; an expired object gets the new owner. If a
 * provider gives an id to two accounts, neither may use it until it would have expired: its expiry is negative then.
 */
export function prepareRecordOwner({
  db,
}: SqliteConnection): (object: OwnedObject, now: number) => void {
  const isExpired = sql`${responseOwner.expiresAt} BETWEEN -${sql.placeholder("now")} AND ${sql.placeholder("now")}`;
  const isOwn = sql`${responseOwner.accountId} = excluded.account_id AND ${responseOwner.expiresAt} > 0`;
  const record = db
    .insert(responseOwner)
    .values(placeholders(columnsOf(responseOwner)))
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
