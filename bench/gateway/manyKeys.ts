import { SQL } from "bun";
import { Database } from "bun:sqlite";
import { issueKey, type IssuedKey } from "../../src/auth/apiKey.ts";
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
  const issued = issueKeys();
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

/** The same in a PostgreSQL database. The accounts may owe instead, because the server checks the history of a credit. */
export async function addManyKeysOnServer(url: string): Promise<string[]> {
  await using sql = new SQL(url, { max: 1 });
  const accounts: { id: string }[] = await sql`INSERT INTO accounts (name, overdraft, created_at)
    SELECT 'many-' || n, ${FUNDS}, 0 FROM generate_series(1, ${ACCOUNTS}) AS n RETURNING id`;
  const issued = issueKeys();
  const rows = issued.map(({ hash, prefix }, at) => ({
    public_id: `key_many${at}`,
    account_id: accounts[at % ACCOUNTS]?.id,
    hash,
    prefix,
    created_at: 0,
  }));
  await sql`INSERT INTO keys ${sql(rows)}`;
  return issued.map((one) => one.key);
}

function issueKeys(): readonly IssuedKey[] {
  return Array.from({ length: KEYS }, () => issueKey(systemRandom));
}
