import { eq, sql } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import { accounts, keys, requests } from "../schema/schema.ts";
import type { SqliteConnection } from "./sqlite.ts";

/** The money of an account, in nano-roubles, and the number of the last row of its history. */
export interface AccountFunds {
  balance: bigint;
  overdraft: bigint;
  seq: number;
}

/** The money of a rotation chain, in nano-roubles. Without a budget, `budget` is null. */
export interface ChainFunds {
  budget: bigint | null;
  spent: bigint;
}

/** The money as the database has it now. */
export interface FundsTable {
  account(accountId: number): AccountFunds;
  /** `firstKeyId`: the first key of the rotation chain. */
  chain(firstKeyId: number): ChainFunds;
  /** Which of these requests have ended in the database. */
  ended(requestIds: readonly string[]): readonly string[];
  /** Runs several reads on one state of the database. */
  inSnapshot<T>(read: () => T): T;
}

export function fundsTable({ db, sqlite }: SqliteConnection): FundsTable {
  const account = db
    .select({ balance: accounts.balance, overdraft: accounts.overdraft, seq: accounts.ledgerSeq })
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder("accountId")))
    .prepare();
  const chain = db
    .select({ budget: keys.budget, spent: keys.spent })
    .from(keys)
    .where(eq(keys.id, sql.placeholder("firstKeyId")))
    .prepare();
  const ended = db
    .select({ id: requests.publicId })
    .from(requests)
    .where(
      sql`${requests.publicId} IN (SELECT value FROM json_each(${sql.placeholder("ids")})) AND ${requests.status} <> 'running'`,
    )
    .prepare();
  return {
    account(accountId) {
      const row = account.get({ accountId });
      assert(row !== undefined, "no account with this row id");
      return row;
    },
    chain(firstKeyId) {
      const row = chain.get({ firstKeyId });
      assert(row !== undefined, "no key with this row id");
      return row;
    },
    ended: (requestIds) => ended.all({ ids: JSON.stringify(requestIds) }).map(({ id }) => id),
    inSnapshot: (read) => sqlite.transaction(read)(),
  };
}
