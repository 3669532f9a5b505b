import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "../../src/store/sqlite.ts";
import {
  actor,
  ended,
  fund,
  opened,
  openStoreFolder,
  unbilled,
  type StoreFolder,
} from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
let sqlite: Database;

beforeAll(async () => {
  storeFolder = await openStoreFolder();
  const owner = fund(storeFolder.store, "alice", 1_000_000n);
  fund(storeFolder.store, "bob", 5n);
  await storeFolder.writer.write({ kind: "openRequest", request: opened("req_done", owner) });
  await storeFolder.writer.write({ kind: "settleRequest", settlement: ended("req_done") });
  await storeFolder.writer.write({ kind: "openRequest", request: opened("req_open", owner) });
  await storeFolder.writer.write({ kind: "openRequest", request: opened("req_failed", owner) });
  await storeFolder.writer.write({
    kind: "settleRequest",
    settlement: ended("req_failed", unbilled),
  });
  const part = { request: "req_done", amount: 295n, ref: null, note: null };
  storeFolder.store.admin.refund(actor, part);
  sqlite = new Database(storeFolder.path, { readwrite: true, safeIntegers: true });
});
afterAll(async () => {
  sqlite.close();
  await storeFolder.close();
});

const ledgerInto =
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT id, ";
const refundInto =
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, refund_of, at) SELECT id, ";
const requestInto =
  "INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, price_input, price_cached_input, price_cache_write, price_output, hold, status, charge, prompt_tokens) ";

describe("refuses SQL that bypasses the program:", () => {
  test.each([
    ["to change a ledger row", "UPDATE ledger SET note = 'x'", "never changed"],
    ["to remove a ledger row", "DELETE FROM ledger", "never removed"],
    ["to raise a balance", "UPDATE accounts SET balance = balance + 1", "follows the ledger"],
    ["to lower a balance", "UPDATE accounts SET balance = 0", "follows the ledger"],
    ["to move the ledger's counter", "UPDATE accounts SET ledger_seq = 0", "follows the ledger"],
    [
      "to take the ledger's counter back",
      "UPDATE accounts SET ledger_seq = 1, balance = 1000000 WHERE name = 'alice'",
      "follows the ledger",
    ],
    ["to remove an account", "DELETE FROM accounts", "never removed"],
    ["to rename an account", "UPDATE accounts SET name = 'carol' WHERE id = 1", "keeps its name"],
    [
      "an account that is born with money",
      "INSERT INTO accounts (name, balance, created_at) VALUES ('rich', 5, 0)",
      "empty ledger",
    ],
    [
      "a gap in the ledger",
      `${ledgerInto} ledger_seq + 2, 'credit', 1, balance + 1, NULL, 0 FROM accounts`,
      "no such next row",
    ],
    [
      "a ledger row twice",
      `${ledgerInto} ledger_seq, 'credit', 1, balance + 1, NULL, 0 FROM accounts`,
      "no such next row",
    ],
    [
      "a balance that does not follow",
      `${ledgerInto} ledger_seq + 1, 'credit', 1, balance + 2, NULL, 0 FROM accounts`,
      "no such next row",
    ],
    [
      "a debit that adds",
      `${ledgerInto} ledger_seq + 1, 'debit', 1, balance + 1, NULL, 0 FROM accounts`,
      "ledger_sign",
    ],
    [
      "a credit that takes",
      `${ledgerInto} ledger_seq + 1, 'credit', -1, balance - 1, NULL, 0 FROM accounts`,
      "ledger_sign",
    ],
    [
      "a credit under the name of a charge",
      `${ledgerInto} ledger_seq + 1, 'credit', 1, balance + 1, 'req:x', 0 FROM accounts`,
      "ledger_charge_ref",
    ],
    [
      "a charge of no request",
      `${ledgerInto} ledger_seq + 1, 'charge', -1, balance - 1, 'mine', 0 FROM accounts`,
      "ledger_charge_ref",
    ],
    [
      "a second charge of a request",
      `${ledgerInto} ledger_seq + 1, 'charge', -1, balance - 1, 'req:req_done', 0 FROM accounts`,
      "there already",
    ],
    [
      "a balance below the overdraft",
      `${ledgerInto} ledger_seq + 1, 'debit', -balance - 1, -1, NULL, 0 FROM accounts`,
      "accounts_promise",
    ],
    ["a negative overdraft", "UPDATE accounts SET overdraft = -1", "accounts_overdraft"],
    ["money as text", "UPDATE accounts SET overdraft = 'much'", "cannot store TEXT"],
    [
      "to open an ended request again",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_done'",
      "ends exactly once",
    ],
    [
      "to end a request twice",
      "UPDATE requests SET status = 'interrupted', charge = 0 WHERE public_id = 'req_failed'",
      "ends exactly once",
    ],
    [
      "to lower what is held",
      "UPDATE requests SET status = 'done', hold = 1 WHERE public_id = 'req_open'",
      "what was held",
    ],
    [
      "to change the price of a request",
      "UPDATE requests SET status = 'done', price_input = 1 WHERE public_id = 'req_open'",
      "what was held",
    ],
    [
      "to charge another than the price",
      "UPDATE requests SET status = 'done', charge = 1 WHERE public_id = 'req_open'",
      "requests_price",
    ],
    [
      "to charge a request that failed",
      "UPDATE requests SET status = 'failed', charge = 25, prompt_tokens = 1 WHERE public_id = 'req_open'",
      "requests_unbilled",
    ],
    [
      "more cached tokens than tokens",
      "UPDATE requests SET status = 'done', cached_tokens = 1 WHERE public_id = 'req_open'",
      "requests_amounts",
    ],
    [
      "a request that is born charged",
      `${requestInto} SELECT 'x', 0, account_id, key_id, 'chat', 'm', 0, 1, 1, 1, 1, 0, 'done', 1, 1 FROM requests`,
      "starts running",
    ],
    [
      "to put a request on another day",
      "UPDATE requests SET status = 'failed', at = 0 WHERE public_id = 'req_open'",
      "what was held",
    ],
    ["to remove a request", "DELETE FROM requests WHERE public_id = 'req_failed'", "older than"],
    [
      "to remove a request that runs, whatever its age",
      "UPDATE retention SET kept_since = 9000000000000; DELETE FROM requests WHERE public_id = 'req_open'",
      "only ended ones",
    ],
    ["to remove totals", "DELETE FROM daily_totals", "never removed"],
    ["to keep again what was folded", "UPDATE retention SET kept_since = -1", "not kept again"],
    ["to keep from two times on", "INSERT INTO retention VALUES (2, 0)", "one row"],
    ["to keep from no time on", "DELETE FROM retention", "one row"],
    [
      "a refund of no charge",
      `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, NULL, 0 FROM accounts`,
      "gives back",
    ],
    [
      "a refund of a credit",
      `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 1, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a credit that calls itself a refund",
      `${refundInto} ledger_seq + 1, 'credit', 1, balance + 1, 3, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of more than was charged",
      `${refundInto} ledger_seq + 1, 'refund', 10296, balance + 10296, 3, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of more than is left of a charge",
      `${refundInto} ledger_seq + 1, 'refund', 10001, balance + 10001, 3, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund to another account",
      `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 3, 0 FROM accounts WHERE id = 2`,
      "gives back",
    ],
    ["to change the admin log", "UPDATE admin_log SET actor = 'nobody'", "never changed"],
    ["to remove the admin log", "DELETE FROM admin_log", "never removed"],
  ])("%s", (_, statement, reason) => {
    const before = dump();
    expect(() => sqlite.transaction(() => sqlite.run(statement))()).toThrow(reason);
    expect(dump()).toEqual(before);
  });

  // A connection with recursive_triggers on asks the triggers that forbid to remove rows, one with it off does not.
  describe.each(["ON", "OFF"])("with recursive_triggers %s also", (recursive) => {
    test.each([
      [
        "a ledger row in the place of another",
        "INSERT OR REPLACE INTO ledger (id, account_id, seq, kind, amount, balance_after, at) SELECT 1, id, ledger_seq + 1, 'credit', 1, balance + 1, 0 FROM accounts",
      ],
      [
        "a charge in the place of another",
        "INSERT OR REPLACE INTO ledger (ref, account_id, seq, kind, amount, balance_after, at) SELECT 'req:req_done', id, ledger_seq + 1, 'charge', -1, balance - 1, 0 FROM accounts",
      ],
      [
        "an account in the place of another",
        "INSERT OR REPLACE INTO accounts (name, created_at) VALUES ('alice', 0)",
      ],
      [
        "an account in the place of another id",
        "INSERT OR REPLACE INTO accounts (id, name, created_at) VALUES (1, 'carol', 0)",
      ],
      [
        "an account that takes the name of another",
        "UPDATE OR REPLACE accounts SET name = 'alice' WHERE name = 'bob'",
      ],
      [
        "a request in the place of another",
        `INSERT OR REPLACE INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, price_input, price_cached_input, price_cache_write, price_output, hold, status)
        SELECT public_id, at, account_id, key_id, endpoint, model, stream, 0, 0, 0, 0, 0, 'running' FROM requests WHERE public_id = 'req_done'`,
      ],
      [
        "a request in the place of another row",
        `INSERT OR REPLACE INTO requests (id, public_id, at, account_id, key_id, endpoint, model, stream, price_input, price_cached_input, price_cache_write, price_output, hold, status)
        SELECT id, 'x', at, account_id, key_id, endpoint, model, stream, 0, 0, 0, 0, 0, 'running' FROM requests WHERE public_id = 'req_done'`,
      ],
      [
        "a request that takes the name of another",
        "UPDATE OR REPLACE requests SET status = 'failed', public_id = 'req_done' WHERE public_id = 'req_open'",
      ],
      [
        "a line of the admin log in the place of another",
        "INSERT OR REPLACE INTO admin_log SELECT id, 0, 'nobody', command, subject, NULL FROM admin_log",
      ],
    ])("%s", (_, statement) => {
      const own = connect(storeFolder.path, "process").sqlite;
      own.run(`PRAGMA recursive_triggers = ${recursive}`);
      const before = dump();
      expect(() => own.run(statement)).toThrow(/there already|keeps its name|never changed/);
      expect(dump()).toEqual(before);
      own.close();
    });
  });

  test("and the audit finds no problem", () => {
    expect(storeFolder.store.audit().problems).toEqual([]);
  });
});

function dump(): unknown[] {
  return ["accounts", "ledger", "requests", "admin_log", "daily_totals", "retention"].map((name) =>
    sqlite.query(`SELECT * FROM ${name}`).all(),
  );
}
