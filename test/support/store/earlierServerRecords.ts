import type { SQL } from "bun";
import { DAY_MS } from "../../../src/lib/clock.ts";
import type { KnownSchema } from "../../../src/store/postgres/schema/migrations.ts";
import { actor } from "./storeFolder.ts";

const FOLDED_AT = actor.at - 3 * DAY_MS;

/** A request of alice that is charged 25 nano-roubles for each of its tokens. */
interface EarlierRequest {
  readonly id: number;
  readonly at: number;
  readonly status: "running" | "done" | "failed" | "cancelled";
  readonly tokens: number;
}

const requests: readonly EarlierRequest[] = [
  { id: 1, at: FOLDED_AT, status: "done", tokens: 4 },
  { id: 2, at: actor.at, status: "done", tokens: 20 },
  { id: 3, at: actor.at, status: "failed", tokens: 0 },
  { id: 4, at: actor.at, status: "cancelled", tokens: 2 },
  { id: 5, at: actor.at, status: "running", tokens: 0 },
];

/**
 * What only a database with this release can have, by the last migration of the release. Each release has a line, so that its
 * version has a fixture.
 */
const recordsSince: Readonly<Record<string, readonly string[]>> = {
  "0001_rules": [
    "INSERT INTO accounts (name, overdraft, created_at) VALUES ('alice', 50, 1), ('bob', 0, 2)",
    `INSERT INTO keys (public_id, account_id, hash, prefix, created_at, first_key_id) VALUES
      ('key_alice', 1, '\\x01', 'sk', 1, NULL), ('key_bob', 2, '\\x02', 'sk', 2, NULL), ('key_rotated', 2, '\\x03', 'sk', 3, 2)`,
    entry(1, "credit", 10_000, "'pay'"),
    entry(1, "debit", -30, "NULL"),
    "INSERT INTO replicas (name, version, started_at, seen_at, last_batch) VALUES ('one', '1', 1, 1, 0)",
    ...requests.flatMap(requestStatements),
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, actor, at, refund_of)
      SELECT id, ledger_seq + 1, 'refund', 120, balance + 120, 'tester', ${actor.at},
        (SELECT ledger_seq FROM requests WHERE id = 2) FROM accounts WHERE id = 1`,
    `UPDATE retention SET kept_since = ${actor.at - DAY_MS}`,
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at)
      SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:' || public_id, at + 40 FROM requests WHERE id = 1`,
    "DELETE FROM requests WHERE id = 1",
    `INSERT INTO vouchers (public_id, hash, prefix, amount, created_at) VALUES
      ('42', '\\x04', '6Q2MV', 1000, 1), ('open', '\\x05', '7Q2MV', 300, 1)`,
    entry(2, "credit", 1000, "'voucher:42'"),
    `UPDATE vouchers SET redeemed_at = ${actor.at}, redeemed_by = 2 WHERE public_id = '42'`,
    "INSERT INTO response_owner (hash, account_id, provider, expires_at, history_tokens) VALUES ('\\x01', 1, 'local', 4102444800000, 77)",
    "INSERT INTO admin_log (at, actor, command, subject) VALUES (1, 'tester', 'accounts create', 'alice')",
  ],
  "0002_notices": [
    "UPDATE accounts SET low = 50, notify_url = 'mailto:a@example.com' WHERE id = 1",
    "INSERT INTO notices VALUES ('account_low', 'alice', 1, 0, 5)",
  ],
  "0003_key_addresses": [
    "UPDATE keys SET first_address = '203.0.113.1', last_address = '2001:db8::1' WHERE id = 1",
  ],
};

/** Fills a database of this schema as its gateways did. Throws for a release without a fixture. */
export async function fillEarlierServer(sql: SQL, { releases }: KnownSchema): Promise<void> {
  for (const { migrations } of releases) {
    const last = migrations.at(-1) ?? "";
    const statements = recordsSince[last];
    if (statements === undefined)
      throw new Error(
        `add a line for the release with ${last} to recordsSince: what only a database with it can have`,
      );
    // Some rules are checked at the commit.
    await sql.begin(async (transaction) => {
      for (const statement of statements) await transaction.unsafe(statement);
    });
  }
}

function entry(account: number, kind: string, amount: number, ref: string): string {
  return `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, actor, at)
    SELECT id, ledger_seq + 1, '${kind}', ${amount}, balance + ${amount}, ${ref}, 'tester', ${actor.at}
    FROM accounts WHERE id = ${account}`;
}

/** The statements by which a replica writes a request and its end. */
function requestStatements({ id, at, status, tokens }: EarlierRequest): readonly string[] {
  const begin = `INSERT INTO requests (id, public_id, at, account_id, key_id, endpoint, model, stream, status, price_input,
      price_cached_input, price_cache_write, price_cache_write_1h, price_output, price_web_search, hold, replica_id)
    VALUES (${id}, 'req_${id}', ${at}, 1, 1, 'chat', 'small', 0, 'running', 25, 25, 25, 25, 25, 0, 1000, 1)`;
  if (status === "running") return [begin];
  const charge = tokens * 25;
  const isCharged = charge > 0;
  const provider = status === "failed" ? "NULL" : "'local'";
  const move = `UPDATE accounts SET balance = balance - ${charge}, ledger_seq = ledger_seq + 1 WHERE id = 1`;
  const end = `UPDATE requests SET status = '${status}', provider = ${provider}, charge = ${charge}, prompt_tokens = ${tokens},
      attempt_count = 1, duration_ms = 40, replica_id = NULL,
      ledger_seq = (SELECT ledger_seq FROM accounts WHERE ${isCharged} AND id = 1),
      balance_after = (SELECT balance FROM accounts WHERE ${isCharged} AND id = 1)
    WHERE id = ${id}`;
  const total = `INSERT INTO daily_totals (day, account_id, key_id, model, provider, endpoint, requests, failed, charged, prompt_tokens,
      cached_tokens, cache_write_tokens, completion_tokens, charge, write_off, operator_cost)
    VALUES (${Math.floor(at / DAY_MS)}, 1, 1, 'small', coalesce(${provider}, ''), 'chat', 1,
      ${status === "failed" ? 1 : 0}, ${isCharged ? 1 : 0}, ${tokens}, 0, 0, 0, ${charge}, 0, 0)
    ON CONFLICT (day, account_id, key_id, model, provider, endpoint) DO UPDATE SET requests = daily_totals.requests + 1,
      charged = daily_totals.charged + excluded.charged, prompt_tokens = daily_totals.prompt_tokens + excluded.prompt_tokens,
      charge = daily_totals.charge + excluded.charge`;
  const attempt =
    status === "failed"
      ? [`INSERT INTO attempts VALUES (${id}, 1, 'local', 'status 500', 500, 40)`]
      : [];
  const spend = `UPDATE keys SET spent = spent + ${charge} WHERE id = 1`;
  return [begin, ...(isCharged ? [move, spend] : []), end, total, ...attempt];
}
