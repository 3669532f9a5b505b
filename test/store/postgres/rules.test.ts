import { SQL } from "bun";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { Books, openReplica } from "../../support/store/replica.ts";
import { ended, running, unbilled } from "../../support/store/storeFolder.ts";
import {
  ALICE,
  BOB,
  CAROL,
  addKey,
  addReplica,
  addVoucher,
  changeOpen,
  chargeInto,
  credit,
  endOpen,
  endReplica,
  first,
  fold,
  foldedInto,
  groupInto,
  interrupt,
  keepNone,
  ledgerInto,
  moveAlice,
  noCharge,
  redeem,
  refundInto,
  removeDone,
  reserve,
  second,
} from "../../support/store/uncheckedSql.ts";

const TABLES = [
  "accounts",
  "keys",
  "ledger",
  "requests",
  "attempts",
  "admin_log",
  "daily_totals",
  "daily_figures",
  "request_figures",
  "vouchers",
  "voucher_start",
  "retention",
  "changes",
  "replicas",
  "reserves",
  "schema_version",
] as const;

/** What is refused, and a word of the reason. */
const refusals: Readonly<Record<string, readonly (readonly [string, string, string])[]>> = {
  "of figures": [
    [
      "one of a request without figures",
      "INSERT INTO request_figures SELECT id, 'images', 1, 0 FROM requests WHERE status = 'done' LIMIT 1",
      "no such figure",
    ],
    ["to change one", "UPDATE request_figures SET quantity = 1", "never changed"],
    ["to remove all", "TRUNCATE request_figures", "may be folded"],
    ["to remove totals", "DELETE FROM daily_figures", "never removed"],
  ],
  "of accounts": [
    ["to raise a balance", "UPDATE accounts SET balance = balance + 1", "follows the ledger"],
    ["to lower a balance", "UPDATE accounts SET balance = 100000", "follows the ledger"],
    [
      "to move the counter",
      "UPDATE accounts SET ledger_seq = ledger_seq + 1",
      "follows the ledger",
    ],
    [
      "to take the counter back to an earlier balance",
      "UPDATE accounts SET ledger_seq = 1, balance = 1000000 WHERE name = 'alice'",
      "follows the ledger",
    ],
    [
      "to give the balance of another account",
      `UPDATE accounts SET (ledger_seq, balance) = (SELECT ledger_seq, balance FROM accounts WHERE name = 'alice') WHERE name = 'bob'`,
      "follows the ledger",
    ],
    ["to remove one", "DELETE FROM accounts WHERE name = 'carol'", "never removed"],
    ["to remove all", "TRUNCATE accounts CASCADE", "never removed"],
    ["to rename one", "UPDATE accounts SET name = 'dave' WHERE name = 'bob'", "keeps its name"],
    ["to renumber one", "UPDATE accounts SET id = 9 WHERE name = 'bob'", "keeps its name"],
    [
      "the name of another",
      "INSERT INTO accounts (name, created_at) VALUES ('bob', 0)",
      "accounts_name_unique",
    ],
    [
      "one with money",
      "INSERT INTO accounts (name, balance, created_at) VALUES ('rich', 5, 0)",
      "empty ledger",
    ],
    [
      "one with rows",
      "INSERT INTO accounts (name, ledger_seq, created_at) VALUES ('rich', 1, 0)",
      "empty ledger",
    ],
    [
      "one with a reserve",
      "INSERT INTO accounts (name, overdraft, reserved, created_at) VALUES ('rich', 5, 5, 0)",
      "empty ledger",
    ],
    ["a negative overdraft", "UPDATE accounts SET overdraft = -1", "accounts_overdraft"],
    ["money as text", "UPDATE accounts SET overdraft = 'much'", "invalid input syntax"],
  ],
  "of keys": [
    ["to remove one", "DELETE FROM keys", "never removed"],
    ["to remove all", "TRUNCATE keys CASCADE", "never removed"],
    ["to renumber one", "UPDATE keys SET id = 77", "keeps its id"],
    ["one of no account", addKey.replace(ALICE, "77"), "keys_account_id_accounts_id_fk"],
    ["less than nothing spent", "UPDATE keys SET spent = -1", "keys_spent"],
  ],
  "of the ledger": [
    ["to change a row", "UPDATE ledger SET note = 'x'", "never changed"],
    ["to remove a row", "DELETE FROM ledger WHERE seq = 1", "never removed"],
    ["to remove all", "TRUNCATE ledger", "never removed"],
    ["a gap", ledgerInto("alice", { seq: "ledger_seq + 2" }), "no such next row"],
    ["a number twice", ledgerInto("alice", { seq: "ledger_seq" }), "no such next row"],
    ["a first row with another number", ledgerInto("carol", { seq: "2" }), "no such next row"],
    [
      "a balance that does not follow",
      ledgerInto("alice", { balance_after: "balance + 2" }),
      "no such next row",
    ],
    [
      "a row behind a gap that the account has jumped over",
      `${moveAlice(1, 25)}; ${ledgerInto("alice")}`,
      "no such next row",
    ],
    ["a debit that adds", ledgerInto("alice", { kind: "'debit'" }), "ledger_sign"],
    [
      "a credit that takes",
      ledgerInto("alice", { amount: "-1", balance_after: "balance - 1" }),
      "ledger_sign",
    ],
    ["another kind", ledgerInto("alice", { kind: "'gift'" }), "ledger_kind"],
    [
      "a credit under the name of a charge",
      ledgerInto("alice", { ref: "'req:x'" }),
      "ledger_charge_ref",
    ],
    [
      "a ref twice",
      `${ledgerInto("alice", { ref: "'paid'" })}; ${ledgerInto("bob", { ref: "'paid'" })}`,
      "ledger_ref_unique",
    ],
    [
      "a balance below the overdraft",
      ledgerInto("bob", { kind: "'debit'", amount: "-balance - 1", balance_after: "-1" }),
      "accounts_promise",
    ],
    [
      "a debit of what is reserved",
      ledgerInto("alice", { kind: "'debit'", amount: "-balance + 999", balance_after: "999" }),
      "accounts_reserve",
    ],
    [
      "a charge under the name of no request",
      ledgerInto("alice", {
        kind: "'charge'",
        amount: "-1",
        balance_after: "balance - 1",
        ref: "'mine'",
      }),
      "ledger_charge_ref",
    ],
    [
      "a charge of a request that there never was",
      `${keepNone}; ${ledgerInto("alice", { kind: "'charge'", amount: "-1", balance_after: "balance - 1", ref: "'req:x'" })}`,
      "comes from a request",
    ],
    ["a charge of a request that is kept", foldedInto(), "may be folded"],
    ...[
      { account_id: CAROL },
      { seq: "ledger_seq + 1" },
      { amount: "-charge - 1" },
      { balance_after: "balance_after + 1" },
      { ref: "'req:x'" },
    ].map((change): [string, string, string] => [
      `a folded charge with another ${Object.keys(change).join()}`,
      `${keepNone}; ${foldedInto(change)}`,
      // Another number is that of the refund.
      "seq" in change ? "ledger_account_seq" : "comes from a request",
    ]),
    ["a folded charge twice", `${keepNone}; ${foldedInto()}; ${foldedInto()}`, "duplicate key"],
    [
      "a folded charge of a request that stays",
      `${keepNone}; ${foldedInto()}`,
      "is removed with it",
    ],
  ],
  "of refunds": [
    ["one of no charge", refundInto(1, "NULL"), "gives back"],
    ["one of a credit", refundInto(1, "1"), "gives back"],
    ["one of a refund", refundInto(1, "3"), "gives back"],
    ["a credit that calls itself one", ledgerInto("alice", { refund_of: "2" }), "gives back"],
    ["more than was charged", refundInto(10_296, "2"), "gives back"],
    ["more than is left of a charge", refundInto(10_001, "2"), "gives back"],
    ["one to another account", refundInto(1, "2", "bob"), "gives back"],
    ["one of a folded request", `${fold}; ${refundInto(1, "2")}`, "gives back"],
  ],
  "of charges": [
    [
      "one without a move of the account",
      chargeInto("x", "a.ledger_seq + 1", "a.balance - 25"),
      "no such next charge",
    ],
    ["a move of the account without one", moveAlice(1, 25), "follows the ledger"],
    [
      "a move by another amount",
      `${moveAlice(1, 24)}; ${chargeInto("x", "a.ledger_seq", "a.balance - 1")}`,
      "follows the ledger",
    ],
    [
      "a move past the last one",
      `${moveAlice(2, 25)}; ${chargeInto("x", "a.ledger_seq - 1")}`,
      "follows the ledger",
    ],
    [
      "a balance that does not follow",
      `${moveAlice(1, 25)}; ${chargeInto("x", "a.ledger_seq", "a.balance + 1")}`,
      "no such next charge",
    ],
    ["a gap", `${moveAlice(2, 25)}; ${chargeInto("x")}`, "no such next charge"],
    ["the place of the last one", chargeInto("x"), "requests_account_seq"],
    ["the place of a credit", chargeInto("x", "1", "1000000"), "no such next charge"],
    ["the place of a refund", chargeInto("x", "3", "989680"), "no such next charge"],
    ["place 0", chargeInto("x", "0", "0"), "no such next charge"],
    [
      "a second one that does not follow",
      `${moveAlice(2, 50)}; ${first}; ${chargeInto("x", "a.ledger_seq", "a.balance + 1")}`,
      "no such next charge",
    ],
    [
      "a second one in the place of the first",
      `${moveAlice(2, 50)}; ${first}; ${chargeInto("x", "a.ledger_seq - 1", "a.balance + 25")}`,
      "requests_account_seq",
    ],
    [
      "a move to the first one of a group",
      `${moveAlice(1, 25)}; ${chargeInto("x")}; ${chargeInto("y", "a.ledger_seq + 1", "a.balance - 25")}`,
      "no such next charge",
    ],
    ["a gap within a statement", `${moveAlice(3, 75)}; ${groupInto(2, 0)}`, "no such next charge"],
    ["a gap before a statement", `${moveAlice(3, 75)}; ${groupInto(0, 1)}`, "no such next charge"],
    [
      "one that follows from another account",
      `${moveAlice(1, 25)}; ${chargeInto("x", "a.ledger_seq", "a.balance", { account_id: BOB })}`,
      "no such next charge",
    ],
    [
      "another than the price",
      `${moveAlice(1, 24)}; ${chargeInto("x", "a.ledger_seq", "a.balance", { charge: "24" })}`,
      "requests_price",
    ],
    [
      "a price beyond 64 bits",
      `${moveAlice(1, 25)}; ${chargeInto("x", "a.ledger_seq", "a.balance", { price_input: "9000000000000000000", prompt_tokens: "9" })}`,
      "out of range",
    ],
    [
      "a charge of what is reserved",
      `${reserve(ALICE, "balance")}; ${moveAlice(1, 25)}`,
      "accounts_reserve",
    ],
    ["a done request without a place", chargeInto("x", "NULL", "NULL"), "requests_charge"],
    ["a place without a balance", chargeInto("x", "a.ledger_seq + 1", "NULL"), "requests_charge"],
    ["a balance without a place", chargeInto("x", "NULL", "a.balance"), "requests_charge"],
    [
      "a cancelled request with a charge and no place",
      chargeInto("x", "NULL", "NULL", { status: "'cancelled'" }),
      "requests_charge",
    ],
    [
      "a failed request with a place",
      chargeInto("x", "a.ledger_seq + 1", "a.balance", { status: "'failed'", ...noCharge }),
      "requests_charge",
    ],
    [
      "a failed request with a charge",
      `${moveAlice(1, 25)}; ${chargeInto("x", "a.ledger_seq", "a.balance", { status: "'failed'" })}`,
      "requests_unbilled",
    ],
    [
      "to fold one at once, and to leave the account",
      `${keepNone}; ${chargeInto("x", "a.ledger_seq + 1", "a.balance - 25")}`,
      "no such next charge",
    ],
  ],
  "of requests": [
    [
      "another status",
      chargeInto("x", "NULL", "NULL", { status: "'gone'", ...noCharge }),
      "requests_status",
    ],
    [
      "one of no account",
      chargeInto("x", "NULL", "NULL", { account_id: "77", status: "'failed'", ...noCharge }),
      "no such account",
    ],
    [
      "one of no key",
      chargeInto("x", "NULL", "NULL", { key_id: "77", status: "'failed'", ...noCharge }),
      "no such account, key",
    ],
    [
      "a running one of no replica",
      chargeInto("x", "NULL", "NULL", { status: "'running'", ...noCharge }),
      "requests_replica",
    ],
    [
      "a running one of a replica that there never was",
      chargeInto("x", "NULL", "NULL", { status: "'running'", replica_id: "77", ...noCharge }),
      "live replica",
    ],
    [
      "a running one of a replica that has ended",
      `${addReplica}; ${chargeInto("x", "NULL", "NULL", { status: "'running'", replica_id: "(SELECT max(id) FROM replicas)", ...noCharge })}`,
      "live replica",
    ],
    [
      "a failed one that a replica runs",
      chargeInto("x", "NULL", "NULL", { status: "'failed'", replica_id: "1", ...noCharge }),
      "requests_replica",
    ],
    [
      "a running one with a place",
      chargeInto("x", "a.ledger_seq + 1", "a.balance", {
        status: "'running'",
        replica_id: "1",
        ...noCharge,
      }),
      "requests_charge",
    ],
    [
      "an id twice",
      chargeInto("req_failed", "NULL", "NULL", { status: "'failed'", ...noCharge }),
      "requests_public_id_unique",
    ],
    [
      "to open an ended one again",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_failed'",
      "ends exactly once",
    ],
    [
      "to end one twice",
      "UPDATE requests SET status = 'interrupted' WHERE public_id = 'req_failed'",
      "ends exactly once",
    ],
    [
      "to move an ended one",
      "UPDATE requests SET ledger_seq = 9 WHERE public_id = 'req_done'",
      "ends exactly once",
    ],
    [
      "to change the price of an ended one",
      "UPDATE requests SET price_cache_write_1h = 1 WHERE public_id = 'req_done'",
      "ends exactly once",
    ],
    [
      "to change the price of a running one",
      "UPDATE requests SET price_input = 1, model = 'large' WHERE public_id = 'req_open'",
      "ends exactly once",
    ],
    [
      "to give a running one to another replica",
      `${addReplica.replace("1, 0)", "NULL, 0)")}; UPDATE requests SET replica_id = 2 WHERE public_id = 'req_open'`,
      "ends exactly once",
    ],
    ["to lower what is held", changeOpen("hold = 1"), "what was held"],
    ["to change the endpoint", changeOpen("endpoint = 'responses'"), "what was held"],
    ["to change the day", changeOpen("at = 0"), "what was held"],
    ["to change the key", changeOpen("key_id = 2"), "what was held"],
    ["to change the account", changeOpen(`account_id = ${BOB}`), "what was held"],
    ["to change the id", changeOpen("public_id = 'x'"), "what was held"],
    [
      "to charge one that failed",
      `${moveAlice(1, 25)}; ${endOpen("a.ledger_seq", "a.balance", "failed")}`,
      "requests_unbilled",
    ],
    ["more cached tokens than tokens", changeOpen("cached_tokens = 1"), "requests_amounts"],
    [
      "to end one with a charge that does not follow",
      `${moveAlice(1, 25)}; ${endOpen("a.ledger_seq", "a.balance + 1")}`,
      "no such next charge",
    ],
    [
      "to end one with a gap before its charge",
      `${moveAlice(2, 25)}; ${endOpen()}`,
      "no such next charge",
    ],
    [
      "to end one without a move of the account",
      endOpen("a.ledger_seq + 1", "a.balance - 25"),
      "no such next charge",
    ],
    [
      "to end one as done without a place",
      endOpen("NULL::bigint", "NULL::bigint"),
      "requests_charge",
    ],
    [
      "to charge another than the price",
      `${moveAlice(1, 25)}; ${endOpen().replace("25, 1", "25, 2")}`,
      "requests_price",
    ],
    [
      "to remove one that is kept",
      "DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_failed'",
      "older than",
    ],
    ["to remove all", "TRUNCATE requests CASCADE", "older than"],
    [
      "to remove a running one, whatever its age",
      `${keepNone}; DELETE FROM requests WHERE public_id = 'req_open'`,
      "only ended ones",
    ],
    [
      "to remove one whose charge is not in the ledger",
      `${keepNone}; ${removeDone}`,
      "the charge is not in the ledger",
    ],
    [
      "to remove one with the charge of another",
      `${keepNone}; ${foldedInto()}; ${removeDone.replace("req_done", "req_last")}`,
      "the charge is not in the ledger",
    ],
    [
      "to remove one before its attempts",
      `${keepNone}; ${foldedInto()}; ${removeDone.slice(removeDone.indexOf(";"))}`,
      "attempts_request_id_requests_id_fk",
    ],
  ],
  "of vouchers": [
    [
      "one that an account has redeemed at no time",
      `UPDATE vouchers SET redeemed_by = ${BOB} WHERE public_id = 'v_open'`,
      "vouchers_end",
    ],
    [
      "one that is redeemed at once",
      addVoucher({ redeemed_at: "1", redeemed_by: BOB }),
      "a new voucher is open",
    ],
    ["one that is revoked at once", addVoucher({ revoked_at: "1" }), "a new voucher is open"],
    ["one of nothing", addVoucher({ amount: "0" }), "vouchers_amount"],
    ["an id twice", addVoucher({ public_id: "'v_open'" }), "vouchers_public_id_unique"],
    ["a code twice", addVoucher({ hash: "sha256('v_open')" }), "vouchers_hash_unique"],
    ["to remove one", "DELETE FROM vouchers", "never removed"],
    ["to remove all", "TRUNCATE vouchers", "never removed"],
    ["to raise one", "UPDATE vouchers SET amount = 8 WHERE public_id = 'v_open'", "never changed"],
    [
      "to change the note of one",
      "UPDATE vouchers SET note = 'x' WHERE public_id = 'v_open'",
      "never changed",
    ],
    ["to redeem one without its credit", redeem("v_open"), "no such credit"],
    [
      "to redeem one at another time than its credit",
      `${credit("v_open")}; ${redeem("v_open", 51)}`,
      "no such credit",
    ],
    [
      "to redeem one for another account",
      `${credit("v_open")}; ${redeem("v_open").replace(BOB, ALICE)}`,
      "no such credit",
    ],
    ["a credit of one that stays open", credit("v_open"), "redeemed with it"],
    [
      "a credit of another amount",
      credit("v_open", { amount: "8", balance_after: "balance + 8" }),
      "an open voucher",
    ],
    ["a credit of one that has expired", credit("v_open", { at: "100" }), "an open voucher"],
    [
      "a debit under the name of one",
      credit("v_open", { kind: "'debit'", amount: "-1", balance_after: "balance - 1" }),
      "an open voucher",
    ],
    ["a credit of one that there never was", credit("v_none"), "an open voucher"],
    ["a second credit of one", credit("v_redeemed"), "an open voucher"],
    ["a credit of one that is revoked", credit("v_revoked"), "an open voucher"],
    ["to redeem one again", redeem("v_redeemed"), "ends exactly once"],
    [
      "to revoke one that is redeemed",
      "UPDATE vouchers SET revoked_at = 1, redeemed_at = NULL, redeemed_by = NULL WHERE public_id = 'v_redeemed'",
      "ends exactly once",
    ],
    [
      "to open one that is revoked",
      "UPDATE vouchers SET revoked_at = NULL WHERE public_id = 'v_revoked'",
      "ends exactly once",
    ],
    [
      "to revoke one with its credit",
      `${credit("v_open")}; UPDATE vouchers SET revoked_at = 60 WHERE public_id = 'v_open'`,
      "has its credit",
    ],
    [
      "to redeem and revoke one",
      `${credit("v_open")}; ${redeem("v_open").replace("SET", "SET revoked_at = 1,")}`,
      "has its credit",
    ],
  ],
  "of reserves": [
    ["more than the account has", reserve(BOB, "balance + 1"), "accounts_reserve"],
    ["less than nothing", reserve(BOB, "-1"), "accounts_reserve"],
    ["an account's without a block", reserve(BOB, "1"), "sum of the blocks"],
    ["to release an account's and keep the block", reserve(ALICE, "0"), "sum of the blocks"],
    [
      "a block without the account's",
      `INSERT INTO reserves VALUES (1, ${BOB}, 0, 1)`,
      "what the account has reserved",
    ],
    [
      "a larger block",
      "UPDATE reserves SET amount = amount + 1 WHERE key_id = 0",
      "what the account has reserved",
    ],
    ["to remove a block", "DELETE FROM reserves WHERE key_id = 0", "what the account has reserved"],
    ["to remove all", "TRUNCATE reserves", "have reserved them"],
    ["an empty block", `INSERT INTO reserves VALUES (1, ${BOB}, 0, 0)`, "reserves_amount"],
    [
      "to give a block to another account",
      `UPDATE reserves SET account_id = ${BOB}`,
      "keeps its owner",
    ],
    [
      "a block of no replica",
      `${reserve(BOB, "1")}; INSERT INTO reserves VALUES (77, ${BOB}, 0, 1)`,
      "reserves_replica_id_replicas_id_fk",
    ],
    [
      "a block of a replica that has ended",
      `${addReplica}; ${reserve(BOB, "1")}; INSERT INTO reserves SELECT max(id), ${BOB}, 0, 1 FROM replicas`,
      "has ended",
    ],
    [
      "a lower overdraft than what is reserved",
      `UPDATE accounts SET overdraft = 10; ${reserve(BOB, "balance + 10")}; UPDATE accounts SET overdraft = 9`,
      "accounts_reserve",
    ],
  ],
  "of replicas": [
    [
      "to revive one",
      `${addReplica}; UPDATE replicas SET ended_at = NULL WHERE name = 'gone'`,
      "stays ended",
    ],
    ["to renumber one", "UPDATE replicas SET id = 77", "stays ended"],
    ["to remove one that lives", "DELETE FROM replicas", "only ended ones"],
    ["to remove all", "TRUNCATE replicas CASCADE", "only ended ones"],
    [
      "to end one that has a block",
      `${interrupt}; ${endReplica}`,
      "no block and no running request",
    ],
    [
      "to end one that has a running request",
      `${reserve(ALICE, "0")}; DELETE FROM reserves; ${endReplica}`,
      "no block and no running request",
    ],
  ],
  "of tables that only grow": [
    ["to remove totals", "DELETE FROM daily_totals", "never removed"],
    ["to remove all totals", "TRUNCATE daily_totals", "never removed"],
    ["to change the admin log", "UPDATE admin_log SET actor = 'nobody'", "never changed"],
    ["to remove a row of the admin log", "DELETE FROM admin_log", "never removed"],
    ["to remove the admin log", "TRUNCATE admin_log", "never removed"],
    ["to keep again what was folded", "UPDATE retention SET kept_since = -1", "not kept again"],
    ["to keep from two times on", "INSERT INTO retention VALUES (2, 0)", "one row"],
    ["to keep from no time on", "DELETE FROM retention", "one row"],
    ["to set the counter of changes back", "UPDATE changes SET seq = seq - 1", "only grows"],
    ["to keep the counter of changes", "UPDATE changes SET seq = seq", "only grows"],
    [
      "to renumber the counter of changes",
      "UPDATE changes SET id = 2, seq = seq + 1",
      "only grows",
    ],
    ["to count changes twice", "INSERT INTO changes VALUES (2, 0)", "one row"],
    ["to remove the counter of changes", "TRUNCATE changes", "one row"],
    ["to change where vouchers start", "UPDATE voucher_start SET ledger_id = 9", "never changed"],
    ["to remove where vouchers start", "DELETE FROM voucher_start", "never changed"],
    [
      "to take the version of the schema back",
      "UPDATE schema_version SET applied = 1",
      "only grow",
    ],
    ["to remove the version of the schema", "DELETE FROM schema_version", "one row"],
  ],
};

/** What works, and whether replicas must hear of it. */
const allowed: readonly (readonly [what: string, statements: string, isTold?: "told"])[] = [
  ["a charge", `${moveAlice(1, 25)}; ${chargeInto("x")}`],
  ["a group of charges", `${moveAlice(2, 50)}; ${first}; ${second}`],
  [
    "a group of charges in one statement, in any order",
    `${moveAlice(4, 100)}; ${groupInto(1, 3, 0, 2)}`,
  ],
  [
    "an end and a charge after it",
    `${moveAlice(2, 50)}; ${endOpen("a.ledger_seq - 1", "a.balance + 25")}; ${second}`,
  ],
  ["a charge and an end after it", `${moveAlice(2, 50)}; ${first}; ${endOpen()}`],
  [
    "a charge of nothing as the first row of an account",
    `UPDATE accounts SET ledger_seq = 1 WHERE name = 'carol'; ${chargeInto("x", "1", "0", noCharge).replace("'alice'", "'carol'")}`,
  ],
  [
    "a cancelled request with a charge",
    `${moveAlice(1, 25)}; ${endOpen("a.ledger_seq", "a.balance", "cancelled")}`,
  ],
  ["a failed request", chargeInto("x", "NULL", "NULL", { status: "'failed'", ...noCharge })],
  ["the end of a running request", interrupt],
  ["the folding of a charge", fold],
  [
    "to remove a request without a charge",
    `${keepNone}; DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_failed'`,
  ],
  [
    "a credit and a charge after it",
    `${ledgerInto("alice")}; ${moveAlice(1, 25)}; ${chargeInto("x")}`,
    "told",
  ],
  [
    "a charge and a credit after it",
    `${moveAlice(1, 25)}; ${chargeInto("x")}; ${ledgerInto("alice")}`,
    "told",
  ],
  ["a block", `${reserve(BOB, "5")}; INSERT INTO reserves VALUES (1, ${BOB}, 0, 5)`],
  ["a block of a chain", `INSERT INTO reserves VALUES (1, ${BOB}, 1, 5)`],
  [
    "the end of a replica",
    `${reserve(ALICE, "0")}; DELETE FROM reserves; ${interrupt}; ${endReplica}`,
  ],
  ["a heartbeat", "UPDATE replicas SET seen_at = seen_at + 1, last_batch = 9"],
  ["to remove an ended replica", `${addReplica}; DELETE FROM replicas WHERE name = 'gone'`],
  ["the use of a key", "UPDATE keys SET last_used_at = 1, spent = spent + 1, label = 'x'"],
  [
    "the same settings again",
    "UPDATE keys SET budget = budget, models = models; UPDATE accounts SET disabled = disabled",
  ],
  ["a voucher", addVoucher()],
  [
    "the end of a voucher without a credit",
    "UPDATE vouchers SET revoked_at = 60 WHERE public_id = 'v_open'",
  ],
  ["a redemption", `${credit("v_open")}; ${redeem("v_open")}`, "told"],
  ["a new account", "INSERT INTO accounts (name, created_at) VALUES ('dave', 0)", "told"],
  ["another overdraft", "UPDATE accounts SET overdraft = 7 WHERE name = 'bob'", "told"],
  ["a disabled account", "UPDATE accounts SET disabled = 1 WHERE name = 'bob'", "told"],
  ["a price plan", "UPDATE accounts SET plan = 'wholesale' WHERE name = 'bob'", "told"],
  ["a credit", ledgerInto("bob", { ref: "'paid'" }), "told"],
  [
    "a debit",
    ledgerInto("bob", { kind: "'debit'", amount: "-1", balance_after: "balance - 1" }),
    "told",
  ],
  ["all that is left of a charge", refundInto(10_000, "2"), "told"],
  ["a new key", addKey, "told"],
  ...[
    "expires_at",
    "revoked_at",
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "models",
    "budget",
    "first_key_id",
    "public_id",
  ].map((column): [string, string, "told"] => [
    `another ${column} of a key`,
    `UPDATE keys SET ${column} = ${["models", "public_id"].includes(column) ? "'1'" : "1"} WHERE id = 1`,
    "told",
  ]),
  ["another hash of a key", "UPDATE keys SET hash = '\\x01' WHERE id = 1", "told"],
  ["a key of another account", `UPDATE keys SET account_id = ${BOB} WHERE id = 1`, "told"],
  [
    "many changes at once",
    `UPDATE accounts SET overdraft = 7; ${addKey}; ${ledgerInto("bob")}`,
    "told",
  ],
];

/** alice has a credit (row 1), a charge (2), a refund of it (3) and a charge (4); bob has a credit and a redemption. */
describePostgres("SQL that nobody checks", () => {
  let database: TestDatabase;
  let books: Books;
  let sql: SQL;
  beforeAll(async () => {
    database = await replicaDatabase();
    books = new Books(database.url);
    const replica = await openReplica(database.url);
    const owner = await books.open("alice", 1_000_000n);
    const other = await books.open("bob", 5n);
    await books.sql`INSERT INTO accounts (name, created_at) VALUES ('carol', 0)`;
    await replica.reserve({ accountId: owner.accountId, reserved: "100000" });
    await replica.record(ended("req_done", owner));
    await replica.record(running("req_open", owner));
    await replica.record(ended("req_failed", owner, unbilled));
    await books.append(owner.accountId, "refund", 295n, 2n);
    await replica.record(ended("req_last", owner));
    await replica.reserve({ accountId: owner.accountId, reserved: "1000" });
    await books.sql.unsafe(
      ["v_open", "v_redeemed", "v_revoked"]
        .map((id) =>
          addVoucher({ public_id: `'${id}'`, hash: `sha256('${id}')`, expires_at: "100" }),
        )
        .join("; "),
    );
    await books.sql.unsafe("UPDATE vouchers SET revoked_at = 1 WHERE public_id = 'v_revoked'");
    await replica.writer.write({
      kind: "redeemVoucher",
      redemption: { voucherId: 2, accountId: other.accountId, actor: "bob", at: 50 },
    });
    await books.sql`INSERT INTO admin_log (at, actor, command, subject) VALUES (0, 'a', 'b', 'c')`;
    await replica.abandon();
    sql = new SQL(database.url, { max: 1, bigint: true });
  });
  afterAll(async () => {
    const problems = await books.problems();
    await sql.close();
    await books[Symbol.asyncDispose]();
    await database.drop();
    expect(problems).toEqual([]);
  });

  const dump = async () => {
    const rows: unknown[] = [];
    for (const name of TABLES)
      rows.push(
        ...(await books.sql.unsafe(`SELECT '${name}', t::text FROM ${name} t ORDER BY 2`).values()),
      );
    return rows;
  };

  for (const [subject, cases] of Object.entries(refusals))
    describe(`is refused for the sake ${subject}:`, () => {
      test.each(cases)("%s", async (_, statements, reason) => {
        const before = await dump();
        const transaction = sql.begin((own) => own.unsafe(statements));
        expect(transaction).rejects.toThrow(reason);
        await transaction.catch(() => undefined);
        expect(await dump()).toEqual(before);
      });
    });

  describe("may do what agrees, and counts what replicas must hear of:", () => {
    test.each(allowed.map((row) => ({ row, what: row[0] })))("$what", async ({ row }) => {
      const [, statements, isTold] = row;
      const seq = async (own: SQL) => (await own`SELECT seq FROM changes`)[0].seq as bigint;
      const undone = new Error("undone");
      const transaction = sql.begin(async (own) => {
        const before = await seq(own);
        await own.unsafe(statements);
        expect(await seq(own)).toBe(before);
        await own.unsafe("SET CONSTRAINTS ALL IMMEDIATE");
        expect((await seq(own)) > before).toBe(isTold === "told");
        throw undone;
      });
      expect(await transaction.catch((error: unknown) => error)).toBe(undone);
    });
  });
});
