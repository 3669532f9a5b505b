import type { Database } from "bun:sqlite";
import { hashKey } from "../src/auth/apiKey.ts";
import { DAY_MS } from "../src/lib/clock.ts";
import { seededRandom } from "../test/support/seededRandom.ts";
import { insertInBulk, sumUp } from "../test/support/store/bulkInsert.ts";

export const ACCOUNTS = 100;
export const KEYS_PER_ACCOUNT = 3;
/** The requests are spread evenly over the year before this moment. */
export const FILLED_UNTIL_MS = Date.UTC(2026, 0, 1);
const YEAR_MS = 365 * DAY_MS;
const MODELS = ["gpt-5-mini", "gpt-5", "claude-sonnet-4-5", "deepseek-chat"];
const PROVIDERS = ["openai", "openrouter"];
/** Of 1,000 requests 20 fail, and 20 are cancelled and charged all the same. */
const FAILED_PER_MILLE = 20;
const CANCELLED_PER_MILLE = 20;
const FUNDS = 1_000_000_000_000_000n;

/** The text of a key that the filled store knows: one of each account. */
export function filledKey(account: number): string {
  return `key of account ${account}`;
}

/** Makes a database with this number of settled requests at `path`. The rows are those that the gateway would write. */
export function fillStore(path: string, requestCount: number): void {
  insertInBulk(path, (sqlite) => {
    insertOwners(sqlite);
    insertRequests(sqlite, requestCount);
    sumUp(sqlite);
  });
}

function insertOwners(sqlite: Database): void {
  const account = sqlite.prepare("INSERT INTO accounts (id, name, created_at) VALUES (?, ?, 0)");
  const credit = sqlite.prepare(
    "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, at) VALUES (?, 1, 'credit', ?, ?, 0)",
  );
  const key = sqlite.prepare(
    "INSERT INTO keys (public_id, account_id, hash, prefix, created_at) VALUES (?, ?, ?, 'sk-tg-000000', 0)",
  );
  for (let id = 1; id <= ACCOUNTS; id += 1) {
    account.run(id, `account-${id}`);
    credit.run(id, FUNDS, FUNDS);
    for (let at = 0; at < KEYS_PER_ACCOUNT; at += 1) {
      const secret = at === 0 ? filledKey(id) : `${filledKey(id)}, ${at}`;
      key.run(`key_${id}_${at}`, id, Buffer.from(hashKey(secret)));
    }
  }
}

function insertRequests(sqlite: Database, requestCount: number): void {
  const request =
    sqlite.prepare(`INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, provider,
      stream, status, price_input, price_cached_input, price_cache_write, price_cache_write_1h,
      price_output, figures_price, hold, charge, write_off,
      prompt_tokens, cached_tokens, completion_tokens, operator_cost, attempt_count, duration_ms, first_byte_ms,
      ledger_seq, balance_after)
    VALUES (?, ?, ?, ?, 'chat', ?, ?, ?, ?, 25000, 2500, 25000, 25000, 200000, 0, 500000000, ?, 0, ?, ?, ?, ?, 1, ?, ?, ?, ?)`);
  const attempt = sqlite.prepare("INSERT INTO attempts VALUES (?, 1, ?, ?, ?, ?)");
  const { below, pick } = seededRandom(7);
  const seqs = Array.from({ length: ACCOUNTS + 1 }, () => 1);
  const balances = Array.from({ length: ACCOUNTS + 1 }, () => FUNDS);
  for (let row = 1; row <= requestCount; row += 1) {
    const at = FILLED_UNTIL_MS - YEAR_MS + Math.floor(((row - 1) / requestCount) * YEAR_MS);
    const account = 1 + Math.floor((below(ACCOUNTS) * below(ACCOUNTS)) / ACCOUNTS);
    const key = (account - 1) * KEYS_PER_ACCOUNT + 1 + below(KEYS_PER_ACCOUNT);
    const chance = below(1000);
    const failed = chance < FAILED_PER_MILLE;
    const status = failed
      ? "failed"
      : chance < FAILED_PER_MILLE + CANCELLED_PER_MILLE
        ? "cancelled"
        : "done";
    const [prompt, completion] = failed ? [0, 0] : [1 + below(4000), 1 + below(1500)];
    const cached = Math.floor(prompt / 4);
    const cost = BigInt((prompt - cached) * 25_000 + cached * 2_500 + completion * 200_000);
    const id = `req_${at.toString(32).padStart(9, "0")}${row.toString(32).padStart(11, "0")}`;
    const provider = pick(PROVIDERS);
    const durationMs = 500 + below(20_000);
    const seq = (seqs[account] ?? 0) + 1;
    const balance = (balances[account] ?? 0n) - cost;
    if (!failed) {
      seqs[account] = seq;
      balances[account] = balance;
    }
    request.run(
      id,
      at,
      account,
      key,
      pick(MODELS),
      failed ? null : provider,
      below(2),
      status,
      cost,
      prompt,
      cached,
      completion,
      failed ? null : cost / 2n,
      durationMs,
      failed ? null : 400,
      failed ? null : seq,
      failed ? null : balance,
    );
    if (failed) attempt.run(row, provider, "status 500", 500, durationMs);
  }
}
