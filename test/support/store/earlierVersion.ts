import type { SQL } from "bun";
import { Database } from "bun:sqlite";
import { DAY_MS } from "../../../src/lib/clock.ts";
import {
  FIRST_SCHEMA,
  migrationsBetween,
  type Engine,
} from "../../../src/store/schema/migrationFiles.ts";
import {
  knownSchema,
  migrateServer,
  versionOf,
} from "../../../src/store/postgres/schema/migrations.ts";
import { applyMigrations } from "../../../src/store/sqlite/schema/migrations.ts";
import { upgradeStore, type UpgradeStep } from "../../../src/store/open.ts";
import { actor } from "./storeFolder.ts";

const PRICE = 25;
const SEARCH_PRICE = 900;

interface EarlierRequest {
  readonly id: string;
  readonly account: number;
  readonly status: "running" | "done" | "failed" | "cancelled";
  readonly tokens?: number;
  readonly searches?: number;
  readonly day?: number;
  /** Outcomes of its attempts, unless it has one that succeeded. */
  readonly attempts?: readonly string[];
}

/** The requests with "folded" in their id are folded, and two are refunded in part. */
const requests: readonly EarlierRequest[] = [
  { id: "req_folded", account: 1, status: "done", tokens: 4, searches: 2, day: -3 },
  { id: "req_folded_refunded", account: 1, status: "done", tokens: 9, day: -3 },
  { id: "req_folded_failed", account: 2, status: "failed", day: -3, attempts: ["timeout"] },
  { id: "req_done", account: 1, status: "done", tokens: 20 },
  { id: "req_free", account: 1, status: "done" },
  { id: "req_other", account: 2, status: "done", tokens: 3 },
  { id: "req_failover", account: 1, status: "done", tokens: 2, attempts: ["status 503", "ok"] },
  { id: "req_cancelled", account: 1, status: "cancelled", tokens: 1, searches: 1 },
  { id: "req_cancelled_free", account: 1, status: "cancelled" },
  { id: "req_failed", account: 2, status: "failed", day: 1, attempts: ["status 500"] },
  { id: "req_running", account: 1, status: "running", day: 1 },
  { id: "req_last", account: 1, status: "done", tokens: 7, searches: 3, day: 1 },
];

/** The statements by which the gateway of 0.2.0 fills a database. */
function recordsOf020(engine: Engine): readonly string[] {
  const bytes = (hex: string) => (engine === "sqlite" ? `x'${hex}'` : `'\\x${hex}'`);
  const replica = `INSERT INTO replicas (name, version, started_at, seen_at, last_batch) VALUES ('one', '1', 1, 1, 0)`;
  const folded = "FROM requests WHERE public_id LIKE 'req_folded%'";
  return [
    "INSERT INTO accounts (name, overdraft, created_at, low, notify_url) VALUES ('alice', 50, 1, 50, 'mailto:a@example.com'), ('bob', 0, 2, NULL, NULL)",
    `INSERT INTO keys (public_id, account_id, hash, prefix, created_at, budget, models, first_key_id) VALUES
      ('key_alice', 1, ${bytes("01")}, 'sk', 1, 7000, '["small"]', NULL), ('key_bob', 2, ${bytes("02")}, 'sk', 2, NULL, NULL, NULL),
      ('key_rotated', 2, ${bytes("03")}, 'sk', 3, NULL, NULL, 2)`,
    entry({ account: 1, kind: "credit", amount: 20_000, ref: "pay" }),
    `INSERT INTO vouchers (public_id, hash, prefix, amount, created_at, expires_at) VALUES
      ('42', ${bytes("04")}, '6Q2MV', 1000, 1, NULL), ('open', ${bytes("05")}, '7Q2MV', 300, 1, NULL),
      ('expired', ${bytes("06")}, '8Q2MV', 300, 1, 2)`,
    entry({ account: 2, kind: "credit", amount: 1000, ref: "voucher:42" }),
    `UPDATE vouchers SET redeemed_at = ${actor.at}, redeemed_by = 2 WHERE public_id = '42'`,
    ...(engine === "postgres" ? [replica] : []),
    ...requests.flatMap((request) => requestStatements(engine, request)),
    entry({ account: 1, kind: "debit", amount: -30 }),
    refund("req_done", 120),
    refund("req_folded_refunded", 5),
    `UPDATE retention SET kept_since = ${actor.at - DAY_MS}`,
    `DELETE FROM attempts WHERE request_id IN (SELECT id ${folded})`,
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at)
      SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:' || public_id, at + 40 ${folded} AND ledger_seq IS NOT NULL`,
    `DELETE ${folded}`,
    `INSERT INTO response_owner (hash, account_id, provider, expires_at, history_tokens) VALUES (${bytes("01")}, 1, 'local', 4102444800000, 77)`,
    "INSERT INTO admin_log (at, actor, command, subject) VALUES (1, 'tester', 'accounts create', 'alice')",
    "INSERT INTO notices VALUES ('account_low', 'alice', 1, 0, 5)",
  ];
}

/** What a database has since each migration. Each migration has a line, so that its schema has a fixture. */
const recordsSince: Readonly<Record<string, (engine: Engine) => readonly string[]>> = {
  "0000_tables": recordsOf020,
  "0001_key_addresses": () => [
    "UPDATE keys SET first_address = '203.0.113.1', last_address = '2001:db8::1' WHERE id = 1",
  ],
  "0002_requests_of_account": () => [],
  "0003_figures": () => [],
  "0004_pricing": () => ["UPDATE accounts SET plan = 'wholesale' WHERE name = 'bob'"],
  "0005_cache_saved": () => [],
  "0006_figure_parts": () => [],
};

/** Throws for a migration without a fixture. */
function recordsOf(engine: Engine, migration: string): readonly string[] {
  const records = recordsSince[migration];
  if (records === undefined)
    throw new Error(`add ${migration} to recordsSince: what only a database with it can have`);
  return records(engine);
}

/** The numbers of the schemas since 0.2.0. */
export function versionsOf(engine: Engine): readonly number[] {
  return migrationsBetween(engine, 0).map((_, index) => FIRST_SCHEMA[engine] + index);
}

type Fill = (sqlite: Database) => void;
const nothing: Fill = () => undefined;

/** Makes a SQLite file with the schema of this number, and without records but for those of `work`. */
export function makeEmptyVersion(path: string, version: number, work: Fill = nothing): void {
  makeVersion(path, version, () => [], work);
}

/** Makes a SQLite file with the schema of this number, as gateways have filled it since 0.2.0. */
export function makeEarlierVersion(path: string, version: number, work: Fill = nothing): void {
  makeVersion(path, version, (migration) => recordsOf("sqlite", migration), work);
}

function makeVersion(
  path: string,
  version: number,
  records: (migration: string) => readonly string[],
  work: Fill,
): void {
  const sqlite = new Database(path, { create: true, readwrite: true });
  let done = 0;
  for (const [index, migration] of migrationsBetween("sqlite", 0, version).entries()) {
    applyMigrations(sqlite, done, FIRST_SCHEMA.sqlite + index);
    done = FIRST_SCHEMA.sqlite + index;
    for (const statement of records(migration)) sqlite.run(statement);
  }
  work(sqlite);
  sqlite.run(`PRAGMA user_version = ${version}`);
  sqlite.close();
}

/** Adds requests to a file with the schema of 0.2.0. */
export function addRunningRequests(sqlite: Database, count: number): void {
  sqlite.run(`INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status, price_input,
      price_cached_input, price_cache_write, price_cache_write_1h, price_output, price_web_search, hold)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ${count})
    SELECT 'req_' || n, n, 1, 1, 'chat', 'small', 0, 'running', 1, 1, 1, 1, 1, 1, 0 FROM n`);
}

/** Gives an empty PostgreSQL database the schema of this number, and fills it as gateways have done since 0.2.0. */
export async function makeEarlierServer(sql: SQL, version: number): Promise<void> {
  for (const [index, { migrations }] of knownSchema.releases.entries()) {
    const schema = { ...knownSchema, releases: knownSchema.releases.slice(0, index + 1) };
    if (versionOf(schema) > version) return;
    await migrateServer(sql, schema);
    const statements = migrations.flatMap((migration) => recordsOf("postgres", migration));
    // Some rules are checked at the commit.
    await sql.begin(async (transaction) => {
      for (const statement of statements) await transaction.unsafe(statement);
    });
  }
}

interface EarlierEntry {
  readonly account: number;
  readonly kind: string;
  readonly amount: number;
  readonly ref?: string;
}

function entry({ account, kind, amount, ref }: EarlierEntry): string {
  return `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, actor, at)
    SELECT id, ledger_seq + 1, '${kind}', ${amount}, balance + ${amount}, ${ref === undefined ? "NULL" : `'${ref}'`}, 'tester', ${actor.at}
    FROM accounts WHERE id = ${account}`;
}

function refund(id: string, amount: number): string {
  return `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, actor, at, refund_of)
    SELECT a.id, a.ledger_seq + 1, 'refund', ${amount}, a.balance + ${amount}, 'tester', ${actor.at}, r.ledger_seq
    FROM requests r JOIN accounts a ON a.id = r.account_id WHERE r.public_id = '${id}'`;
}

function requestStatements(engine: Engine, request: EarlierRequest): readonly string[] {
  const { id, account, status, tokens = 0, searches = 0, day = 0, attempts = [] } = request;
  const at = actor.at + day * DAY_MS;
  const replica = engine === "postgres" ? [", replica_id", ", 1"] : ["", ""];
  const begin = `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status, price_input,
      price_cached_input, price_cache_write, price_cache_write_1h, price_output, price_web_search, hold${replica[0]})
    VALUES ('${id}', ${at}, ${account}, ${account}, 'chat', 'small', 0, 'running', ${PRICE}, ${PRICE}, ${PRICE}, ${PRICE}, ${PRICE},
      ${SEARCH_PRICE}, 5000${replica[1]})`;
  if (status === "running") return [begin];
  const charge = tokens * PRICE + searches * SEARCH_PRICE;
  const isCharged = status === "done" || charge > 0;
  const provider = status === "failed" ? "NULL" : "'local'";
  // PostgreSQL moves the account before the charge, SQLite after it.
  const isMoved = engine === "postgres";
  const move = isCharged
    ? [
        `UPDATE accounts SET balance = balance - ${charge}, ledger_seq = ledger_seq + 1 WHERE id = ${account}`,
      ]
    : [];
  const end = `UPDATE requests SET status = '${status}', provider = ${provider}, charge = ${charge}, prompt_tokens = ${tokens},
      web_searches = ${searches}, attempt_count = ${Math.max(attempts.length, 1)}, duration_ms = 40, first_byte_ms = 7${isMoved ? ", replica_id = NULL" : ""},
      ledger_seq = (SELECT ledger_seq + ${isMoved ? 0 : 1} FROM accounts WHERE ${isCharged} AND id = ${account}),
      balance_after = (SELECT balance - ${isMoved ? 0 : charge} FROM accounts WHERE ${isCharged} AND id = ${account})
    WHERE public_id = '${id}'`;
  const total = `INSERT INTO daily_totals (day, account_id, key_id, model, provider, endpoint, requests, failed, charged, prompt_tokens,
      cached_tokens, cache_write_tokens, completion_tokens, web_searches, charge, write_off, operator_cost)
    VALUES (${Math.floor(at / DAY_MS)}, ${account}, ${account}, 'small', coalesce(${provider}, ''), 'chat', 1,
      ${status === "failed" ? 1 : 0}, ${isCharged ? 1 : 0}, ${tokens}, 0, 0, 0, ${searches}, ${charge}, 0, 0)
    ON CONFLICT (day, account_id, key_id, model, provider, endpoint) DO UPDATE SET requests = daily_totals.requests + 1,
      charged = daily_totals.charged + excluded.charged, prompt_tokens = daily_totals.prompt_tokens + excluded.prompt_tokens,
      web_searches = daily_totals.web_searches + excluded.web_searches, charge = daily_totals.charge + excluded.charge`;
  return [
    begin,
    ...(isMoved ? [...move, end] : [end, ...move]),
    `UPDATE keys SET spent = spent + ${charge} WHERE id = ${account}`,
    total,
    ...attempts.map(
      (outcome, index) =>
        `INSERT INTO attempts SELECT id, ${index + 1}, 'local', '${outcome}', ${outcome === "ok" ? 200 : 503}, 40
          FROM requests WHERE public_id = '${id}'`,
    ),
  ];
}

/** Upgrades a SQLite file as a gateway does, without a backup. */
export async function upgrade(
  path: string,
  onStep: (step: UpgradeStep) => void = () => undefined,
): Promise<void> {
  const stopped = new Promise<void>(() => undefined);
  await upgradeStore({
    path,
    durability: "process",
    serving: true,
    wantsBackup: false,
    stopped,
    onStep,
  });
}
