import type { Database } from "bun:sqlite";
import { connectReadOnly, sqliteFault } from "./sqlite.ts";

/** What a restore lets in again that was shut out: keys by their public ids, and accounts by their names. */
export interface Revived {
  /** They were revoked, or had expired, as one does whose grace after a rotation is over. */
  keys: readonly string[];
  /** They were disabled. */
  accounts: readonly string[];
}

const ENDED_KEYS = `SELECT public_id AS name FROM keys
  WHERE revoked_at IS NOT NULL OR expires_at <= ?1 ORDER BY id`;
const LIVE_KEY = `SELECT 1 FROM keys JOIN accounts ON accounts.id = keys.account_id
  WHERE public_id = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) AND NOT disabled`;
const DISABLED_ACCOUNTS = "SELECT name FROM accounts WHERE disabled ORDER BY name";
const LIVE_ACCOUNT = "SELECT 1 FROM accounts WHERE name = ?1 AND NOT disabled";

/**
 * What works in the store at `copy`, to which nobody writes, and does not in the one `before`, at that time in
 * milliseconds since 1970; undefined where `before` cannot be read, or is no store.
 */
export function revivedBy(copy: string, before: Database, atMs: number): Revived | undefined {
  const after = connectReadOnly(copy);
  try {
    const isLiveKey = after.query<object, [string, number]>(LIVE_KEY);
    const isLiveAccount = after.query<object, [string]>(LIVE_ACCOUNT);
    return {
      keys: names(before, ENDED_KEYS, atMs).filter((id) => isLiveKey.get(id, atMs) !== null),
      accounts: names(before, DISABLED_ACCOUNTS).filter((name) => isLiveAccount.get(name) !== null),
    };
  } catch (error) {
    if (sqliteFault(error) === undefined) throw error;
    return undefined;
  } finally {
    after.close(true);
  }
}

function names(sqlite: Database, query: string, ...values: number[]): string[] {
  return sqlite
    .query<{ name: string }, number[]>(query)
    .all(...values)
    .map(({ name }) => name);
}
