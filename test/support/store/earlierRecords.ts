import type { Database } from "bun:sqlite";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { migrationTags } from "../../../src/store/schema/migrationFiles.ts";
import { actor } from "./storeFolder.ts";

/** The first version whose form of `requests` is kept until the charges move into it: with refunds and folding. */
const WITH_REFUNDS = 3;
/** The first version in which a charge is in the row of its request, and the writer counts instead of triggers. */
const WITH_CHARGED_REQUESTS = 5;
/** The first version that prices one-hour cache writes and web searches. */
const WITH_ALL_PRICES = 6;
/** The first version with vouchers. A `ref` of an operator may not begin like theirs from there on. */
const WITH_VOUCHERS = 7;

const LATER_MS = 4_102_444_800_000;

type Fill = (sqlite: Database) => void;
const nothing: Fill = () => undefined;

/**
 * What only a database with this migration can have, besides the requests and entries below. Each migration has a line, so
 * that its version has a fixture.
 */
const recordsSince: Readonly<Record<string, Fill>> = {
  "0000_tables": (sqlite) => {
    sqlite.run(
      "INSERT INTO response_owner (hash, account_id, provider, expires_at) VALUES (x'01', 1, 'local', ?)",
      [LATER_MS],
    );
    sqlite.run(
      "INSERT INTO admin_log (at, actor, command, subject) VALUES (1, 'tester', 'accounts create', 'alice')",
    );
  },
  "0001_triggers": nothing,
  "0002_corrections_and_totals": (sqlite) =>
    sqlite.run(`INSERT INTO keys (public_id, account_id, hash, prefix, created_at, first_key_id)
      VALUES ('key_rotated', 2, x'03', 'sk', 3, 2)`),
  "0003_history_tokens": (sqlite) =>
    sqlite.run(
      "INSERT INTO response_owner (hash, account_id, provider, expires_at, history_tokens) VALUES (x'02', 2, 'local', ?, 77)",
      [LATER_MS],
    ),
  "0004_one_row_per_charge": nothing,
  "0005_usage_with_prices": nothing,
  "0006_vouchers": (sqlite) =>
    sqlite.run(`INSERT INTO vouchers (public_id, hash, prefix, amount, created_at, expires_at)
      VALUES ('open', x'05', '7Q2MV', 300, 1, NULL), ('expired', x'06', '8Q2MV', 300, 1, 2)`),
  "0007_notices": (sqlite) => {
    sqlite.run("UPDATE accounts SET low = 50, notify_url = 'mailto:a@example.com' WHERE id = 1");
    sqlite.run("INSERT INTO notices VALUES ('account_low', 'alice', 1, 0, 5)");
  },
  "0008_key_addresses": (sqlite) =>
    sqlite.run(
      "UPDATE keys SET first_address = '203.0.113.1', last_address = '2001:db8::1' WHERE id = 1",
    ),
};

/** The number of migrations that the fixtures know. */
export const FIXTURE_VERSIONS = Object.keys(recordsSince).length;

interface EarlierRequest {
  readonly id: string;
  readonly account: number;
  readonly status: "running" | "done" | "failed" | "cancelled";
  readonly charge?: number;
  readonly day?: number;
  /** Outcomes of its attempts. */
  readonly attempts?: readonly string[];
}

const ok = ["ok"] as const;
const requests: readonly EarlierRequest[] = [
  { id: "req_folded", account: 1, status: "done", charge: 100, day: -3, attempts: ok },
  { id: "req_folded_refunded", account: 1, status: "done", charge: 225, day: -3, attempts: ok },
  { id: "req_folded_failed", account: 2, status: "failed", day: -3, attempts: ["timeout"] },
  { id: "req_done", account: 1, status: "done", charge: 500, attempts: ok },
  { id: "req_free", account: 1, status: "done", attempts: ok },
  { id: "req_other", account: 2, status: "done", charge: 75, attempts: ok },
  { id: "req_failover", account: 1, status: "done", charge: 50, attempts: ["status 503", "ok"] },
  { id: "req_cancelled", account: 1, status: "cancelled", charge: 25, attempts: ok },
  { id: "req_cancelled_free", account: 1, status: "cancelled" },
  { id: "req_failed", account: 2, status: "failed", day: 1, attempts: ["status 500"] },
  { id: "req_running", account: 1, status: "running", day: 1 },
  { id: "req_last", account: 1, status: "done", charge: 175, day: 1, attempts: ok },
];

/**
 * Fills a database of an earlier version as its gateway did. The requests with "folded" in their id are folded, and two
 * are refunded in part, if the version can do that.
 */
export function fillEarlierVersion(sqlite: Database, version: number): void {
  sqlite.run(
    "INSERT INTO accounts (name, overdraft, created_at) VALUES ('alice', 50, 1), ('bob', 0, 2)",
  );
  sqlite.run(`INSERT INTO keys (public_id, account_id, hash, prefix, created_at, budget, models)
    VALUES ('key_alice', 1, x'01', 'sk', 1, 7000, '["small"]'), ('key_bob', 2, x'02', 'sk', 2, NULL, NULL)`);
  append(sqlite, { account: 1, kind: "credit", amount: 10_000, ref: "pay", note: "first" });
  if (version >= WITH_VOUCHERS) openVoucher(sqlite);
  // Versions without vouchers accepted this ref from an operator.
  append(sqlite, { account: 2, kind: "credit", amount: 1000, ref: "voucher:42" });
  if (version >= WITH_VOUCHERS) redeemVoucher(sqlite);
  for (const request of requests) {
    run(sqlite, version, request);
    if (request.id === "req_free") append(sqlite, { account: 1, kind: "debit", amount: -30 });
  }
  for (const fill of fillsUntil(version)) fill(sqlite);
  if (version < WITH_REFUNDS) return;
  refund(sqlite, version, "req_done", 120);
  refund(sqlite, version, "req_folded_refunded", 5);
  sqlite.run("UPDATE retention SET kept_since = ?", [actor.at - DAY_MS]);
  const folded = "SELECT id FROM requests WHERE public_id LIKE 'req_folded%'";
  sqlite.run(`DELETE FROM attempts WHERE request_id IN (${folded})`);
  if (version >= WITH_CHARGED_REQUESTS)
    sqlite.run(`INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at)
      SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:' || public_id, at + 40
      FROM requests WHERE public_id LIKE 'req_folded%' AND ledger_seq IS NOT NULL`);
  sqlite.run("DELETE FROM requests WHERE public_id LIKE 'req_folded%'");
}

/** Throws for a version without a fixture. */
function fillsUntil(version: number): readonly Fill[] {
  return migrationTags("sqlite")
    .slice(0, version)
    .map((tag) => {
      const fill = recordsSince[tag];
      if (fill === undefined)
        throw new Error(
          `add a line for the migration ${tag} to recordsSince: what only a database with it can have`,
        );
      return fill;
    });
}

function openVoucher(sqlite: Database): void {
  sqlite.run(`INSERT INTO vouchers (public_id, hash, prefix, amount, created_at)
    VALUES ('42', x'04', '6Q2MV', 1000, 1)`);
}

function redeemVoucher(sqlite: Database): void {
  sqlite.run("UPDATE vouchers SET redeemed_at = ?, redeemed_by = 2 WHERE public_id = '42'", [
    actor.at,
  ]);
}

interface EarlierEntry {
  readonly account: number;
  readonly kind: string;
  readonly amount: number;
  readonly ref?: string;
  readonly note?: string;
  readonly at?: number;
}

function append(sqlite: Database, entry: EarlierEntry): void {
  const { account, kind, amount, ref = null, note = null, at = actor.at } = entry;
  sqlite.run(
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, actor, note, at)
    SELECT id, ledger_seq + 1, ?2, ?3, balance + ?3, ?4, iif(?2 = 'charge', NULL, 'tester'), ?5, ?6
    FROM accounts WHERE id = ?1`,
    [account, kind, amount, ref, note, at],
  );
}

function run(sqlite: Database, version: number, request: EarlierRequest): void {
  const { id, account, status, charge = 0, day = 0, attempts = [] } = request;
  const at = actor.at + day * DAY_MS;
  const hasAllPrices = version >= WITH_ALL_PRICES;
  const newPrices = hasAllPrices ? ", price_cache_write_1h, price_web_search" : "";
  const newPriceValues = hasAllPrices ? ", 25, 0" : "";
  sqlite.run(
    `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status,
      price_input, price_cached_input, price_cache_write, price_output, hold${newPrices})
    VALUES (?1, ?2, ?3, ?3, 'chat', 'small', 0, 'running', 25, 25, 25, 25, 1000${newPriceValues})`,
    [id, at, account],
  );
  if (status === "running") return;
  if (version >= WITH_CHARGED_REQUESTS) {
    end(sqlite, request);
    return;
  }
  sqlite.run(
    `UPDATE requests SET status = ?2, provider = iif(?2 = 'failed', NULL, 'local'), charge = ?3,
      prompt_tokens = ?3 / 25, attempt_count = ?4, duration_ms = 40, first_byte_ms = 7 WHERE public_id = ?1`,
    [id, status, charge, attempts.length],
  );
  writeAttempts(sqlite, id, attempts);
  // Later versions do it by a trigger.
  if (version < WITH_REFUNDS)
    sqlite.run("UPDATE keys SET spent = spent + ? WHERE id = ?", [charge, account]);
  if (status === "done" || charge > 0)
    append(sqlite, { account, kind: "charge", amount: -charge, ref: `req:${id}`, at: at + 40 });
}

/** Ends a running request, as versions do that have its charge in its own row. */
function end(
  sqlite: Database,
  { id, account, status, charge = 0, attempts = [] }: EarlierRequest,
): void {
  const isCharged = status === "done" || charge > 0;
  sqlite.run(
    `UPDATE requests SET status = ?2, provider = iif(?2 = 'failed', NULL, 'local'), charge = ?3,
      prompt_tokens = ?3 / 25, attempt_count = ?4, duration_ms = 40, first_byte_ms = 7,
      (ledger_seq, balance_after) = (SELECT iif(?5, ledger_seq + 1, NULL), iif(?5, balance - ?3, NULL)
        FROM accounts WHERE id = account_id)
    WHERE public_id = ?1`,
    [id, status, charge, attempts.length, isCharged ? 1 : 0],
  );
  if (isCharged)
    sqlite.run(
      "UPDATE accounts SET ledger_seq = ledger_seq + 1, balance = balance - ?2 WHERE id = ?1",
      [account, charge],
    );
  sqlite.run("UPDATE keys SET spent = spent + ?2 WHERE id = ?1", [account, charge]);
  sqlite.run(
    `INSERT INTO daily_totals (day, account_id, key_id, model, provider, endpoint, requests, failed, charged, prompt_tokens,
      cached_tokens, cache_write_tokens, completion_tokens, charge, refunded, write_off, operator_cost)
    SELECT at / ${DAY_MS}, account_id, key_id, model, coalesce(provider, ''), endpoint,
      1, status = 'failed', ledger_seq IS NOT NULL, prompt_tokens, 0, 0, 0, charge, 0, 0, 0
    FROM requests WHERE public_id = ? ON CONFLICT DO UPDATE SET requests = requests + 1,
      failed = failed + excluded.failed, charged = charged + excluded.charged,
      prompt_tokens = prompt_tokens + excluded.prompt_tokens, charge = charge + excluded.charge`,
    [id],
  );
  const isToldByRow = attempts.length === 1 && attempts[0] === "ok";
  if (!isToldByRow) writeAttempts(sqlite, id, attempts);
}

function writeAttempts(sqlite: Database, id: string, outcomes: readonly string[]): void {
  for (const [index, outcome] of outcomes.entries())
    sqlite.run(
      `INSERT INTO attempts SELECT id, ?2, 'local', ?3, iif(?3 = 'ok', 200, 503), 40 FROM requests
      WHERE public_id = ?1`,
      [id, index + 1, outcome],
    );
}

function refund(sqlite: Database, version: number, id: string, amount: number): void {
  const [charges, column] =
    version >= WITH_CHARGED_REQUESTS ? ["history", "seq"] : ["ledger", "id"];
  sqlite.run(
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, actor, at, refund_of)
    SELECT a.id, a.ledger_seq + 1, 'refund', ?2, a.balance + ?2, 'tester', ?3, l.${column}
    FROM ${charges} l JOIN accounts a ON a.id = l.account_id WHERE l.ref = 'req:' || ?1`,
    [id, amount, actor.at],
  );
}
