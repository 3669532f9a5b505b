import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { auditStore } from "../../src/store/sqlite/audit/auditSqlite.ts";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import { describeAudited } from "../support/store/auditedLedger.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const voucherInto = (amount: number, redeemedAt: number | null): string =>
  `INSERT INTO vouchers (public_id, hash, prefix, created_at, amount, redeemed_at)
    SELECT 'vch_x', hash, '7Q2MV', 0, ${amount}, ${redeemedAt === null ? "NULL" : redeemedAt} FROM keys WHERE id = 1`;

/** What SQLite's integrity check is configured to skip: each constraint, what breaks it, and the rule that finds it. */
const CONSTRAINTS: readonly [name: string, statement: string, problem: string][] = [
  [
    "accounts_promise",
    "UPDATE accounts SET balance = -1 WHERE id = 2",
    "account bob: balance is below",
  ],
  [
    "accounts_overdraft",
    "UPDATE accounts SET overdraft = -1 WHERE id = 2",
    "account bob: balance is below",
  ],
  [
    "accounts_reserve",
    "UPDATE accounts SET reserved = -1 WHERE id = 2",
    "account bob: has a reserve below zero, or above what it can pay",
  ],
  [
    "accounts_reserve",
    "UPDATE accounts SET reserved = 500001 WHERE id = 2",
    "account bob: has a reserve below zero, or above what it can pay",
  ],
  [
    "keys_spent",
    "UPDATE keys SET spent = -1 WHERE id = 1",
    "key key_alice: has spent less than nothing",
  ],
  [
    "ledger_kind",
    "UPDATE ledger SET kind = 'gift' WHERE id = 2",
    "ledger row 2: has an amount or a ref that its kind excludes",
  ],
  [
    "ledger_sign",
    "UPDATE ledger SET amount = -5 WHERE id = 2",
    "ledger row 2: has an amount or a ref that its kind excludes",
  ],
  [
    "ledger_sign",
    "UPDATE ledger SET amount = 5 WHERE ref = 'req:req_old'",
    "has an amount or a ref that its kind excludes",
  ],
  [
    "ledger_charge_ref",
    "UPDATE ledger SET ref = 'req:x' WHERE id = 2",
    "ledger row 2: has an amount or a ref that its kind excludes",
  ],
  [
    "ledger_charge_ref",
    "UPDATE ledger SET ref = NULL WHERE ref = 'req:req_old'",
    "has an amount or a ref that its kind excludes",
  ],
  [
    "requests_status",
    "UPDATE requests SET status = 'lost'",
    "request req_done: has an unknown status, or a charge that its status excludes",
  ],
  [
    "requests_unbilled",
    "UPDATE requests SET status = 'failed'",
    "request req_done: has an unknown status, or a charge that its status excludes",
  ],
  [
    "requests_unbilled",
    "UPDATE requests SET status = 'running'",
    "request req_done: has an unknown status, or a charge that its status excludes",
  ],
  ...["ledger_seq = NULL, balance_after = NULL", "balance_after = NULL", "ledger_seq = NULL"].map(
    (change): [string, string, string] => [
      "requests_charge",
      `UPDATE requests SET ${change} WHERE public_id = 'req_done'`,
      "request req_done: has a charge without a place in the ledger, or a place without a charge",
    ],
  ),
  [
    "requests_price",
    "UPDATE requests SET price_input = price_input + 1",
    "request req_done: charge and write-off",
  ],
  ...[
    "hold = -1",
    "charge = -1, write_off = charge + 1",
    "write_off = -1, charge = charge + 1",
    "cached_tokens = -1, price_cached_input = price_input",
    "cache_write_tokens = -1, price_cache_write = price_input",
    "completion_tokens = -1, price_output = 0, charge = charge - completion_tokens * price_output",
    "prompt_tokens = -1, price_input = 0, charge = charge - prompt_tokens * price_input",
    "cached_tokens = prompt_tokens + 1, price_cached_input = price_input",
    "cache_write_1h_tokens = -1, price_cache_write_1h = price_cache_write",
    "cache_write_1h_tokens = cache_write_tokens + 1, price_cache_write_1h = price_cache_write",
    "has_figures = -1, figures_price = 0",
  ].map((change): [string, string, string] => [
    "requests_amounts",
    `UPDATE requests SET ${change}`,
    "request req_done: charge and write-off",
  ]),
  [
    "request_figures_amounts",
    "INSERT INTO request_figures SELECT id, 'images', 0, 0 FROM requests WHERE public_id = 'req_done'",
    "figure images of request row",
  ],
  [
    "vouchers_amount",
    voucherInto(0, null),
    "voucher vch_x: has an amount or an end that a voucher cannot have",
  ],
  [
    "vouchers_end",
    voucherInto(5, 5),
    "voucher vch_x: has an amount or an end that a voucher cannot have",
  ],
];

describeAudited("the audit finds by a rule of its own what breaks", (ledger) => {
  test.each([...CONSTRAINTS])("%s: %s", async (_, statement, problem) => {
    await ledger.tamper(statement);
    expect((await ledger.audit()).problems).toContainEqual(expect.stringContaining(problem));
  });
});

const storeFolder = openSampleLedgerBefore();

test("every constraint of the store is one of these", () => {
  const sqlite = new Database(storeFolder.path, { readonly: true });
  const tables = sqlite
    .query<{ sql: string }, []>("SELECT sql FROM sqlite_schema WHERE type = 'table'")
    .all();
  sqlite.close();
  const checks = tables.flatMap(({ sql }) => sql.match(/\bCHECK\b/g) ?? []);
  const names = tables.flatMap(({ sql }) =>
    [...sql.matchAll(/CONSTRAINT "(\w+)" CHECK/g)].map(([, name = ""]) => name),
  );
  expect(checks).toHaveLength(names.length);
  expect(new Set(names)).toEqual(new Set(CONSTRAINTS.map(([name]) => name)));
});

test("a connection that audited a store still keeps its constraints", async () => {
  const connection = connect(storeFolder.path, "process");
  await auditStore(connection, { atRest: true });
  expect(() => connection.sqlite.run("UPDATE accounts SET overdraft = -1")).toThrow("CHECK");
  connection.sqlite.close();
});
