import { Database } from "bun:sqlite";
import { issueKey } from "../../src/auth/apiKey.ts";
import { systemRandom } from "../../src/lib/random.ts";

const ACCOUNTS = 200;
const KEYS = 1000;
/** Nano-roubles: more than all runs cost together. */
const FUNDS = 1_000_000_000_000_000_000n;

/**
 * Adds accounts with money and keys to the database of a gateway that is not running, and returns the keys. A command
 * for each would take minutes. The statements name few columns, so that another build's database takes them too.
 */
export function addManyKeys(path: string): string[] {
  const sqlite = new Database(path, { safeIntegers: true });
  const account = sqlite.query<{ id: bigint }, [string]>(
    "INSERT INTO accounts (name, created_at) VALUES (?, 0) RETURNING id",
  );
  const credit = sqlite.query(
    "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, at) VALUES (?, 1, 'credit', ?, ?, 0)",
  );
  const key = sqlite.query(
    "INSERT INTO keys (public_id, account_id, hash, prefix, created_at) VALUES (?, ?, ?, ?, 0)",
  );
  const issued = Array.from({ length: KEYS }, () => issueKey(systemRandom));
  sqlite.transaction(() => {
    const ids = Array.from({ length: ACCOUNTS }, (_, at) => account.get(`many-${at}`)?.id ?? 0n);
    for (const id of ids) credit.run(id, FUNDS, FUNDS);
    issued.forEach(({ hash, prefix }, at) => {
      key.run(`key_many${at}`, ids[at % ACCOUNTS] ?? 0n, hash, prefix);
    });
  })();
  sqlite.close();
  return issued.map((one) => one.key);
}
