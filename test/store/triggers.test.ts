import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import {
  actor,
  ended,
  fund,
  openStoreFolder,
  running,
  unbilled,
  type StoreFolder,
} from "../support/store/storeFolder.ts";
import { chargeInto, foldedInto, keepNone, moveAlice } from "../support/store/uncheckedSql.ts";
import { toldKeyColumns } from "../support/store/toldKeyColumns.ts";

let storeFolder: StoreFolder;
let sqlite: Database;

/** alice has a credit (row 1), a charge (2), a refund of it (3) and a charge (4), and 989,705 left; bob has a credit of 5. */
beforeAll(async () => {
  storeFolder = await openStoreFolder();
  const owner = await fund(storeFolder.store, "alice", 1_000_000n);
  await fund(storeFolder.store, "bob", 5n);
  await storeFolder.record(ended("req_done", owner));
  await storeFolder.record(running("req_open", owner));
  await storeFolder.record(ended("req_failed", owner, unbilled));
  const part = { request: "req_done", amount: 295n, ref: null, note: null };
  await storeFolder.store.admin.refund(actor, part);
  await storeFolder.record(ended("req_last", owner));
  await storeFolder.reserve(owner.accountId, 0n);
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
const first = chargeInto("req_a", "a.ledger_seq + 1", "a.balance - 25");
const second = chargeInto("req_b", "a.ledger_seq + 2", "a.balance - 50");
/** Ends the running request with a charge of 25. */
const endOpen = (place: string, balance: string): string =>
  `UPDATE requests SET (status, charge, prompt_tokens, ledger_seq, balance_after) =
    (SELECT 'done', 25, 1, ${place}, ${balance} FROM accounts a WHERE a.name = 'alice') WHERE public_id = 'req_open'`;

describe("refuses SQL that bypasses the program:", () => {
  test.each([
    [
      "to add a figure to a request without figures",
      "INSERT INTO request_figures SELECT id, 'images', 1, 0 FROM requests WHERE status = 'done' LIMIT 1",
      "no such figure",
    ],
    [
      "to add a figure that no request has",
      "INSERT INTO request_figures VALUES (999999, 'images', 1, 0)",
      "no such figure",
    ],
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
      "an account that is created with money",
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
      "a credit in the place of a charge whose account was not moved",
      `${first}; ${ledgerInto} ledger_seq + 1, 'credit', 1, balance + 1, NULL, 0 FROM accounts WHERE name = 'alice'`,
      "no such next row",
    ],
    [
      "a charge under the name of no request",
      `${ledgerInto} ledger_seq + 1, 'charge', -1, balance - 1, 'mine', 0 FROM accounts`,
      "comes from a request",
    ],
    [
      "a charge in the ledger of a request that there never was",
      `${keepNone}; ${ledgerInto} ledger_seq + 1, 'charge', -1, balance - 1, 'req:x', 0 FROM accounts`,
      "comes from a request",
    ],
    ["a charge in the ledger of a request that is kept", foldedInto(), "may be folded"],
    ...[
      { account_id: "2" },
      { seq: "ledger_seq + 1" },
      { amount: "-charge - 1" },
      { balance_after: "balance_after + 1" },
      { ref: "'req:x'" },
    ].map((change) => [
      `a folded charge with another ${Object.keys(change).join()}`,
      `${keepNone}; ${foldedInto(change)}`,
      "comes from a request",
    ]),
    [
      "a folded charge under the name of no request",
      `${keepNone}; ${foldedInto({ ref: "'mine'" })}`,
      "comes from a request",
    ],
    ["a folded charge twice", `${keepNone}; ${foldedInto()}; ${foldedInto()}`, "there already"],
    [
      "a charge that does not follow from the balance",
      chargeInto("x", "a.ledger_seq + 1", "a.balance - 24"),
      "no such next charge",
    ],
    [
      "a charge with a gap",
      chargeInto("x", "a.ledger_seq + 2", "a.balance - 25"),
      "no such next charge",
    ],
    [
      "a charge in the place of the last one",
      chargeInto("x", "a.ledger_seq", "a.balance - 25"),
      "no such next charge",
    ],
    [
      "a second charge that does not follow from the first one of its group",
      `${first}; ${chargeInto("x", "a.ledger_seq + 2", "a.balance - 25")}`,
      "no such next charge",
    ],
    [
      "a second charge in the place of the first one",
      `${first}; ${chargeInto("x", "a.ledger_seq + 1", "a.balance - 25")}`,
      "UNIQUE constraint",
    ],
    [
      "a charge that follows from another account",
      chargeInto("x", "a.ledger_seq + 1", "a.balance - 25", { account_id: "2" }),
      "no such next charge",
    ],
    ["a done request without a place", chargeInto("x", "NULL", "NULL"), "requests_charge"],
    [
      "a place without a balance",
      chargeInto("x", "a.ledger_seq + 1", "NULL"),
      "no such next charge",
    ],
    ["a balance without a place", chargeInto("x", "NULL", "a.balance - 25"), "requests_charge"],
    [
      "a cancelled request with a charge and no place",
      chargeInto("x", "NULL", "NULL", { status: "'cancelled'" }),
      "requests_charge",
    ],
    [
      "a failed request with a place",
      chargeInto("x", "a.ledger_seq + 1", "a.balance", {
        status: "'failed'",
        charge: "0",
        prompt_tokens: "0",
      }),
      "requests_charge",
    ],
    [
      "a running request with a place",
      chargeInto("x", "a.ledger_seq + 1", "a.balance", {
        status: "'running'",
        charge: "0",
        prompt_tokens: "0",
      }),
      "requests_charge",
    ],
    [
      "to end a request with a charge that does not follow",
      endOpen("a.ledger_seq + 1", "a.balance - 24"),
      "no such next charge",
    ],
    [
      "to end a request with a gap before its charge",
      endOpen("a.ledger_seq + 2", "a.balance - 25"),
      "no such next charge",
    ],
    [
      "to end a request with a charge that does not follow from the one before it in its group",
      `${first}; ${endOpen("a.ledger_seq + 2", "a.balance - 25")}`,
      "no such next charge",
    ],
    ["to end a request as done without a place", endOpen("NULL", "NULL"), "requests_charge"],
    [
      "to move an ended request to another place",
      "UPDATE requests SET ledger_seq = 9 WHERE public_id = 'req_done'",
      "ends exactly once",
    ],
    ["to move a balance without a row", moveAlice(1, 25), "follows the ledger"],
    [
      "to move a balance by another amount than the charge",
      `${first}; ${moveAlice(1, 24)}`,
      "follows the ledger",
    ],
    [
      "to move a balance past a row that is not there",
      `${first}; ${moveAlice(2, 25)}`,
      "follows the ledger",
    ],
    [
      "to move a balance to the first charge of a group only",
      `${first}; ${second}; ${moveAlice(1, 25)}`,
      "a charge is left out",
    ],
    [
      "to move a balance by the first charge and count both",
      `${first}; ${second}; ${moveAlice(2, 25)}`,
      "follows the ledger",
    ],
    [
      "to give the balance of another account",
      "UPDATE accounts SET ledger_seq = 2, balance = 989705 WHERE name = 'bob'",
      "follows the ledger",
    ],
    [
      "a balance below the overdraft",
      `${ledgerInto} ledger_seq + 1, 'debit', -balance - 1, -1, NULL, 0 FROM accounts`,
      "accounts_promise",
    ],
    ["a negative overdraft", "UPDATE accounts SET overdraft = -1", "accounts_overdraft"],
    [
      "a reserve above the balance",
      "UPDATE accounts SET reserved = balance + 1 WHERE name = 'bob'",
      "accounts_reserve",
    ],
    ["a negative reserve", "UPDATE accounts SET reserved = -1", "accounts_reserve"],
    [
      "a debit of what is reserved",
      `UPDATE accounts SET reserved = balance; ${ledgerInto} ledger_seq + 1, 'debit', -1, balance - 1, NULL, 0 FROM accounts WHERE name = 'bob'`,
      "accounts_reserve",
    ],
    [
      "a charge of what is reserved",
      `UPDATE accounts SET reserved = balance WHERE name = 'alice'; ${first}; ${moveAlice(1, 25)}`,
      "accounts_reserve",
    ],
    [
      "a lower overdraft than what is reserved",
      "UPDATE accounts SET overdraft = 10; UPDATE accounts SET reserved = balance + 10; UPDATE accounts SET overdraft = 9",
      "accounts_reserve",
    ],
    [
      "an account that is created with a reserve",
      "INSERT INTO accounts (name, overdraft, reserved, created_at) VALUES ('rich', 5, 5, 0)",
      "empty ledger",
    ],
    [
      "an account that is created with rows",
      "INSERT INTO accounts (name, ledger_seq, created_at) VALUES ('rich', 1, 0)",
      "empty ledger",
    ],
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
      "to change the price and the model of a running request",
      "UPDATE requests SET price_input = 1, model = 'large' WHERE public_id = 'req_open'",
      "ends exactly once",
    ],
    [
      "to change the price of a request that has ended",
      "UPDATE requests SET price_cache_write_1h = 1 WHERE public_id = 'req_done'",
      "ends exactly once",
    ],
    [
      "to change the endpoint of a request",
      "UPDATE requests SET status = 'failed', endpoint = 'responses' WHERE public_id = 'req_open'",
      "what was held",
    ],
    [
      "to charge another than the price",
      "UPDATE requests SET status = 'cancelled', charge = 1 WHERE public_id = 'req_open'",
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
    [
      "to remove a request whose charge is not in the ledger",
      `${keepNone}; DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_done'`,
      "the charge is not in the ledger",
    ],
    [
      "to remove a request whose charge is in the ledger of another request",
      `${keepNone}; ${foldedInto()}; DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_last'`,
      "the charge is not in the ledger",
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
      `${refundInto} ledger_seq + 1, 'credit', 1, balance + 1, 2, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of a refund",
      `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 3, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of a folded request",
      `${keepNone}; ${foldedInto()}; DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_done'; ${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 2, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of more than was charged",
      `${refundInto} ledger_seq + 1, 'refund', 10296, balance + 10296, 2, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund of more than is left of a charge",
      `${refundInto} ledger_seq + 1, 'refund', 10001, balance + 10001, 2, 0 FROM accounts WHERE id = 1`,
      "gives back",
    ],
    [
      "a refund to another account",
      `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 2, 0 FROM accounts WHERE id = 2`,
      "gives back",
    ],
    ["to set the counter of changes back", "UPDATE changes SET seq = seq - 1", "only grows"],
    ["to keep the counter of changes", "UPDATE changes SET seq = seq", "only grows"],
    [
      "to give the counter of changes another id",
      "UPDATE changes SET id = 2, seq = seq + 1",
      "only grows",
    ],
    ["to count changes twice", "INSERT INTO changes VALUES (2, 0)", "one row"],
    ["to remove the counter of changes", "DELETE FROM changes", "one row"],
    ["to change the admin log", "UPDATE admin_log SET actor = 'nobody'", "never changed"],
    ["to remove the admin log", "DELETE FROM admin_log", "never removed"],
  ])("%s", (_, statement, reason) => {
    const before = dump();
    expect(() => sqlite.transaction(() => sqlite.run(statement ?? ""))()).toThrow(reason);
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
        "a row of the ledger in the place of another number",
        "INSERT OR REPLACE INTO ledger (account_id, seq, kind, amount, balance_after, at) SELECT id, 1, 'credit', 1, balance + 1, 0 FROM accounts WHERE name = 'alice'",
      ],
      [
        "a row of the ledger with the ref of another",
        "INSERT OR REPLACE INTO ledger (ref, account_id, seq, kind, amount, balance_after, at) SELECT 'paid', id, ledger_seq + 1, 'credit', 1, balance + 1, 0 FROM accounts WHERE name = 'bob'; INSERT OR REPLACE INTO ledger (ref, account_id, seq, kind, amount, balance_after, at) SELECT 'paid', id, ledger_seq + 1, 'credit', 1, balance + 1, 0 FROM accounts WHERE name = 'alice'",
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
        chargeInto("req_done", "a.ledger_seq + 1", "a.balance - 25").replace(
          "INSERT",
          "INSERT OR REPLACE",
        ),
      ],
      [
        "a request in the place of another row",
        chargeInto("x", "a.ledger_seq + 1", "a.balance - 25", { id: "1" }).replace(
          "INSERT",
          "INSERT OR REPLACE",
        ),
      ],
      [
        "a request in the place of another charge",
        chargeInto("x", "a.ledger_seq", "a.balance").replace("INSERT", "INSERT OR REPLACE"),
      ],
      [
        "the end of a request in the place of another charge",
        endOpen("a.ledger_seq", "a.balance").replace("UPDATE", "UPDATE OR REPLACE"),
      ],
      [
        "an ended request in the place of another charge",
        "UPDATE OR REPLACE requests SET ledger_seq = 4 WHERE public_id = 'req_done'",
      ],
      [
        "a request that takes the name of another",
        "UPDATE OR REPLACE requests SET status = 'failed', public_id = 'req_done' WHERE public_id = 'req_open'",
      ],
      [
        "a line of the admin log in the place of another",
        "INSERT OR REPLACE INTO admin_log SELECT id, 0, 'nobody', command, subject, NULL FROM admin_log",
      ],
      ["a lower counter of changes", "INSERT OR REPLACE INTO changes VALUES (1, 0)"],
      [
        "a lower time from which requests are kept",
        "INSERT OR REPLACE INTO retention VALUES (1, 0)",
      ],
    ])("%s", (_, statement) => {
      const own = connect(storeFolder.path, "process").sqlite;
      own.run(`PRAGMA recursive_triggers = ${recursive}`);
      const before = dump();
      expect(() => own.transaction(() => own.run(statement))()).toThrow(
        /there already|no such next|keeps its name|never changed|ends exactly once|one row/,
      );
      expect(dump()).toEqual(before);
      own.close();
    });
  });

  test("and the audit finds no problem", async () => {
    expect((await storeFolder.store.auditHere()).problems).toEqual([]);
  });
});

/** What the statements add to the counter of changes. They are rolled back. */
function changesBy(...statements: readonly string[]): number {
  const seq = (): number =>
    Number(sqlite.query<{ seq: bigint }, []>("SELECT seq FROM changes").get()?.seq);
  sqlite.run("BEGIN IMMEDIATE");
  try {
    const before = seq();
    for (const statement of statements) sqlite.run(statement);
    return seq() - before;
  } finally {
    sqlite.run("ROLLBACK");
  }
}

test.each([
  ["a group of charges", [first, second, moveAlice(2, 50)]],
  [
    "an end and a charge after it",
    [endOpen("a.ledger_seq + 1", "a.balance - 25"), second, moveAlice(2, 50)],
  ],
  [
    "a charge and an end after it",
    [first, endOpen("a.ledger_seq + 2", "a.balance - 50"), moveAlice(2, 50)],
  ],
  [
    "the folding of a charge",
    [
      keepNone,
      foldedInto(),
      "DELETE FROM attempts",
      "DELETE FROM requests WHERE public_id = 'req_done'",
    ],
  ],
  ["a reserve", ["UPDATE accounts SET reserved = balance"]],
  ["the use of a key", ["UPDATE keys SET last_used_at = 1, spent = spent + 1, label = 'x'"]],
])("allows what a gateway writes, and counts it as no change: %s", (_, statements) => {
  expect(changesBy(...statements)).toBe(0);
});

const addKey =
  "INSERT INTO keys (public_id, account_id, hash, prefix, created_at) VALUES ('x', 1, x'00', 'sk', 0)";

test.each([
  ["a new account", "INSERT INTO accounts (name, created_at) VALUES ('carol', 0)"],
  ["another overdraft", "UPDATE accounts SET overdraft = 7 WHERE name = 'bob'"],
  ["a disabled account", "UPDATE accounts SET disabled = 1 WHERE name = 'bob'"],
  ["a price plan", "UPDATE accounts SET plan = 'wholesale' WHERE name = 'bob'"],
  [
    "a credit",
    `${ledgerInto} ledger_seq + 1, 'credit', 1, balance + 1, NULL, 0 FROM accounts WHERE name = 'bob'`,
  ],
  [
    "a debit",
    `${ledgerInto} ledger_seq + 1, 'debit', -1, balance - 1, NULL, 0 FROM accounts WHERE name = 'bob'`,
  ],
  [
    "a refund",
    `${refundInto} ledger_seq + 1, 'refund', 1, balance + 1, 2, 0 FROM accounts WHERE id = 1`,
  ],
  ["a new key", addKey],
  ...toldKeyColumns.map((column): [string, string] => [
    `another ${column} of a key`,
    `UPDATE keys SET ${column} = ${column === "hash" ? "x'01'" : "1"} WHERE id = 1`,
  ]),
])("counts as one change: %s", (_, statement) => {
  expect(changesBy(statement)).toBe(1);
});

test("counts the removal of a key as a change", () => {
  expect(changesBy(addKey, "DELETE FROM keys WHERE public_id = 'x'")).toBe(2);
});

const TABLES = [
  "accounts",
  "keys",
  "ledger",
  "requests",
  "attempts",
  "admin_log",
  "daily_totals",
  "retention",
  "changes",
] as const;

function dump(): unknown[] {
  return TABLES.map((name) => sqlite.query(`SELECT * FROM ${name}`).all());
}
