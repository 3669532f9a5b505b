import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/store/open.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { fund, recordMany, running } from "../support/store/storeFolder.ts";
import { cpuTimer } from "../support/measurement.ts";
import { describeAudited } from "../support/store/auditedLedger.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

/** Of a file that SQLite made without being asked for another. */
const PAGE_BYTES = 4096;

const storeFolder = openSampleLedgerBefore();

const ofToday = "totals of 2026-01-01 (key row 1, chat, small, local)";
const ofOldDay = "totals of 2025-12-30 (key row 1, chat, small, local)";
const today = "day = 20454 AND key_id = 1";
const oldDay = "day = 20452 AND provider = 'local'";
/** The charge of a folded request at the end of an account's history. */
const foldedCharge = (name: string): string =>
  [
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT id, ledger_seq + 1, 'charge', -5, balance - 5, 'req:x', 0 FROM accounts WHERE name = '${name}'`,
    `UPDATE accounts SET balance = balance - 5, ledger_seq = ledger_seq + 1 WHERE name = '${name}'`,
  ].join("; ");

const right = { accounts: 2, requests: 4, problems: [], notes: [] };

test("the audit of an untouched store finds no problem", async () => {
  expect(await storeFolder.store.auditHere()).toEqual(right);
});

test("an audit with two threads finds the same problems", async () => {
  expect(await storeFolder.store.audit()).toEqual(right);
  tamper(storeFolder, "DELETE FROM attempts WHERE n = 2");
  const report = await storeFolder.store.audit();
  expect(report.problems).not.toBeEmpty();
  expect(report).toEqual(await storeFolder.store.auditHere());
});

test("a running request and a reserve that a crash left are notes, not problems", async () => {
  const key = await storeFolder.store.keys.findOrThrow("key_bob");
  const owner = { accountId: key.accountId, keyId: key.id, firstKeyId: key.id };
  await storeFolder.record(running("req_open", owner));
  await storeFolder.reserve(key.accountId, 100_000n);
  const notes = [
    "request req_open: is set to interrupted when the gateway starts",
    "account bob: its reserve is released when the gateway starts",
  ];
  expect(await storeFolder.store.auditHere()).toEqual({ ...right, requests: 5, notes });
  storeFolder.store.interruptRunning();
  expect(await storeFolder.store.auditHere()).toEqual({ ...right, requests: 5 });
});

test("the audit of thousands of requests is done at once: no check compares each with each", async () => {
  const carol = await fund(storeFolder.store, "carol", 10_000_000_000n);
  const ids = Array.from({ length: 5000 }, (_, index) => `req_many_${index}`);
  await recordMany(storeFolder, carol, ids);
  const spentMs = cpuTimer();
  expect(await storeFolder.store.auditHere()).toEqual({ ...right, accounts: 3, requests: 5004 });
  expect(spentMs()).toBeLessThan(1500);
}, 60_000);

describeAudited("the audit finds", (ledger) => {
  test.each([
    [
      "a request that says it has figures, and has none",
      "UPDATE requests SET has_figures = 1, figures_price = 0 WHERE public_id = 'req_done'",
      "request req_done: its figures do not cost what it says",
    ],
    [
      "a figure that costs another price",
      "UPDATE requests SET has_figures = 1, figures_price = 0 WHERE public_id = 'req_done'; INSERT INTO request_figures SELECT id, 'images', 1, 5 FROM requests WHERE public_id = 'req_done'",
      "request req_done: its figures do not cost what it says",
    ],
    [
      "a figure of a request without figures",
      "INSERT INTO request_figures SELECT id, 'images', 1, 5 FROM requests WHERE public_id = 'req_done'",
      "is no figure that its request can have",
    ],
    [
      "a figure that no total counts",
      "UPDATE requests SET has_figures = 1, figures_price = 0 WHERE public_id = 'req_done'; INSERT INTO request_figures SELECT id, 'images', 1, 0 FROM requests WHERE public_id = 'req_done'",
      "is not the sum of its requests",
    ],
    [
      "a total of a figure that no request has",
      "INSERT INTO daily_figures SELECT day, account_id, key_id, model, provider, endpoint, 'images', 1 FROM daily_totals WHERE day = (SELECT max(day) FROM daily_totals)",
      "total of images of day",
    ],
    [
      "a balance that was raised",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'alice'",
      "account alice: balance is not the sum",
    ],
    [
      "a ledger row that was removed",
      "DELETE FROM ledger WHERE kind = 'credit' AND account_id = 2",
      "account bob: balance is not the sum",
    ],
    [
      "the last request removed, and the balance with it",
      "DELETE FROM requests WHERE public_id = 'req_next'; UPDATE accounts SET balance = balance + 10295, ledger_seq = ledger_seq - 1 WHERE name = 'alice'",
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "a charge whose account was not moved",
      "UPDATE accounts SET balance = balance + 10295, ledger_seq = ledger_seq - 1 WHERE name = 'alice'",
      "account alice: balance is not the sum",
    ],
    [
      "an amount that was changed",
      "UPDATE ledger SET amount = amount + 1 WHERE account_id = 2",
      "account bob, row 1: does not follow",
    ],
    [
      "a balance after a credit that was changed",
      "UPDATE ledger SET balance_after = balance_after + 1 WHERE account_id = 2",
      "account bob, row 1: does not follow",
    ],
    [
      "a balance after a charge that was changed",
      "UPDATE requests SET balance_after = balance_after + 1 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow",
    ],
    [
      "a ledger that does not begin with row 1",
      "UPDATE ledger SET seq = seq + 1 WHERE account_id = 2",
      "account bob, row 2: does not follow",
    ],
    [
      "a gap between two charges",
      "UPDATE requests SET ledger_seq = 10 WHERE public_id = 'req_next'; UPDATE accounts SET ledger_seq = 10 WHERE name = 'alice'",
      "account alice, row 10: does not follow",
    ],
    [
      "a row of the ledger with the number of a charge",
      "UPDATE ledger SET seq = 9 WHERE amount = 295",
      "account alice, row 9: does not follow",
    ],
    [
      "a charge that is in the ledger although its request is there",
      "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:req_next', 0 FROM requests WHERE public_id = 'req_next'",
      "request req_next: was folded, but is there",
    ],
    [
      "a request with the id of a folded one",
      "UPDATE requests SET public_id = 'req_old' WHERE public_id = 'req_next'",
      "request req_old: was folded, but is there",
    ],
    [
      "two charges that changed places",
      "UPDATE requests SET ledger_seq = 99 WHERE public_id = 'req_done'; UPDATE requests SET ledger_seq = 5 WHERE public_id = 'req_cancelled'; UPDATE requests SET ledger_seq = 6 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow",
    ],
    [
      "a charge moved to another account",
      "UPDATE requests SET account_id = 2, ledger_seq = 2 WHERE public_id = 'req_next'",
      "account bob, row 2: does not follow",
    ],
    [
      "a ledger row of no account",
      "UPDATE ledger SET account_id = 9 WHERE account_id = 2",
      "account row 9: has a ledger, but is not there",
    ],
    [
      "a charge of no account",
      "UPDATE requests SET account_id = 9 WHERE public_id = 'req_next'",
      "account row 9: has a ledger, but is not there",
    ],
    [
      "a credit said to be a debit",
      "UPDATE ledger SET kind = 'debit' WHERE account_id = 2",
      "ledger row 2: has an amount or a ref that its kind excludes",
    ],
    [
      "amounts that leave 64 bits together",
      "UPDATE ledger SET amount = 9223372036854775807",
      "account bob, row 1: does not follow",
    ],
    [
      "an overdraft below the debt",
      "UPDATE accounts SET overdraft = -2000000 WHERE name = 'alice'",
      "account alice: balance is below its overdraft",
    ],
    [
      "a reserve above what the account can pay",
      "UPDATE accounts SET reserved = 500001 WHERE name = 'bob'",
      "account bob: has a reserve below zero, or above what it can pay",
    ],
    [
      "a charge that leaves 64 bits",
      "UPDATE requests SET charge = -9223372036854775808 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow",
    ],
    [
      "a balance and an overdraft that leave 64 bits together",
      "UPDATE accounts SET balance = 9223372036854775807, overdraft = 9223372036854775807 WHERE name = 'bob'",
      "account bob: balance is not the sum",
    ],
    [
      "a price that leaves 64 bits",
      "UPDATE requests SET prompt_tokens = 9223372036854775807, price_input = 9223372036854775807, price_cached_input = -9223372036854775807 WHERE public_id = 'req_done'",
      "request req_done: charge and write-off are not the price",
    ],
    [
      "tokens that leave 64 bits together",
      "UPDATE requests SET cached_tokens = 9223372036854775807, cache_write_tokens = 9223372036854775807 WHERE public_id = 'req_done'",
      "request req_done: charge and write-off are not the price",
    ],
    [
      "a write-off that leaves 64 bits together with the charge",
      "UPDATE requests SET write_off = 9223372036854775807 WHERE public_id = 'req_cancelled'",
      "request req_cancelled: charge and write-off are not the price",
    ],
    [
      "a folded charge that leaves 64 bits",
      "UPDATE ledger SET amount = -9223372036854775808 WHERE ref = 'req:req_old_refunded'",
      "account alice, row 3: does not follow",
    ],
    [
      "numbers of charges that leave 64 bits together",
      "UPDATE daily_totals SET charged = 9223372036854775807",
      `${ofToday}: are not the sum`,
    ],
    [
      "a day that leaves 64 bits",
      `UPDATE daily_totals SET day = 9000000000000000000 WHERE ${today}`,
      "totals of day 9000000000000000000 (key row 1, chat, small, local): are not the sum",
    ],
    [
      "a request at the end of time",
      "UPDATE requests SET at = 9223372036854775807 WHERE public_id = 'req_next'",
      "totals of day 106751991167 (key row 3, chat, small, local): leave out requests",
    ],
    [
      "a charge that was lowered",
      "UPDATE requests SET charge = 1 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow",
    ],
    [
      "a charge that was lowered together with its tokens and all balances after it",
      "UPDATE requests SET charge = charge - 200, completion_tokens = completion_tokens - 1 WHERE public_id = 'req_next'; UPDATE requests SET balance_after = balance_after + 200 WHERE public_id = 'req_next'; UPDATE accounts SET balance = balance + 200 WHERE name = 'alice'",
      "key row 3, chat, small, local): are not the sum",
    ],
    [
      "a done request without a place",
      "UPDATE requests SET ledger_seq = NULL, balance_after = NULL WHERE public_id = 'req_next'",
      "request req_next: has a charge without a place",
    ],
    [
      "a place without a balance",
      "UPDATE requests SET balance_after = NULL WHERE public_id = 'req_next'",
      "request req_next: has a charge without a place",
    ],
    [
      "a cancelled request with a place and no charge",
      "UPDATE requests SET charge = 0, prompt_tokens = 0, cached_tokens = 0, cache_write_tokens = 0, completion_tokens = 0 WHERE public_id = 'req_cancelled'",
      "request req_cancelled: has a charge without a place in the ledger, or a place without a charge",
    ],
    [
      "tokens that were changed",
      "UPDATE requests SET prompt_tokens = prompt_tokens - 1 WHERE public_id = 'req_done'",
      "request req_done: charge and write-off are not the price",
    ],
    [
      "a price that was changed",
      "UPDATE requests SET price_output = 1 WHERE public_id = 'req_done'",
      "request req_done: charge and write-off are not the price",
    ],
    [
      "a write-off that was made up",
      "UPDATE requests SET write_off = 5 WHERE public_id = 'req_done'",
      "request req_done: charge and write-off are not the price",
    ],
    [
      "a charged request said to have failed",
      "UPDATE requests SET status = 'failed' WHERE public_id = 'req_done'",
      "request req_done: has a charge without a place in the ledger, or a place without a charge",
    ],
    [
      "a charged request that is said to run",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_done'",
      "request req_done: has a charge without a place in the ledger, or a place without a charge",
    ],
    [
      "a request that was removed before its time",
      "DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_done'",
      "totals of 2026-01-01 (key row 1, chat, small, local): are not the sum",
    ],
    [
      "a request moved to another account",
      "UPDATE requests SET account_id = 2 WHERE public_id = 'req_done'",
      "request req_done: belongs to another account",
    ],
    [
      "a request of no key",
      "UPDATE requests SET key_id = 99 WHERE public_id = 'req_done'",
      "request req_done: belongs to another account",
    ],
    [
      "all attempts removed of a request with two",
      "DELETE FROM attempts",
      "request req_done: does not have as many attempts as it counts",
    ],
    [
      "an attempt that was added",
      "INSERT INTO attempts SELECT id, n, 'other', 'ok', 200, 5 FROM requests, (SELECT 1 AS n UNION SELECT 2) AS numbers WHERE public_id = 'req_next'",
      "request req_next: does not have as many attempts as it counts",
    ],
    [
      "an attempt that was removed",
      "DELETE FROM attempts WHERE n = 2",
      "request req_done: does not have as many attempts as it counts",
    ],
    [
      "attempts that were made up",
      "UPDATE requests SET attempt_count = 0 WHERE public_id = 'req_done'",
      "request req_done: does not have as many attempts as it counts",
    ],
    [
      "an attempt for a request that is not there",
      "INSERT INTO attempts VALUES (99, 1, 'local', 'ok', 200, 5)",
      "attempt 1 of request row 99: belongs to no request",
    ],
    [
      "requests that the totals leave out",
      `DELETE FROM daily_totals WHERE ${today}`,
      `${ofToday}: leave out requests`,
    ],
    [
      "a request too many",
      `UPDATE daily_totals SET requests = requests + 1 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "a failure too many",
      `UPDATE daily_totals SET failed = failed + 1 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "tokens too few",
      `UPDATE daily_totals SET prompt_tokens = 5 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "a cost of our own that was lowered",
      `UPDATE daily_totals SET operator_cost = 5 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "a write-off that was made up",
      `UPDATE daily_totals SET write_off = 5 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "a refund that the totals leave out",
      `UPDATE daily_totals SET refunded = 0 WHERE ${today}`,
      `${ofToday}: are not the sum`,
    ],
    [
      "totals of another model",
      `UPDATE daily_totals SET model = 'large' WHERE ${today}`,
      `${ofToday}: leave out requests`,
    ],
    [
      "totals of a day without requests",
      "INSERT INTO daily_totals SELECT 20460, account_id, key_id, model, provider, endpoint, requests, failed, charged, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, charge, refunded, write_off, operator_cost, cache_write_1h_tokens, cache_saved, operator_saved FROM daily_totals WHERE day = 20454 AND key_id = 1",
      "totals of 2026-01-07 (key row 1, chat, small, local): are not the sum",
    ],
    [
      "a folded charge that was lowered",
      `UPDATE daily_totals SET charge = charge - 1 WHERE ${oldDay}`,
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "a folded charge without totals",
      `UPDATE daily_totals SET charged = charged - 1 WHERE ${oldDay}`,
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "a folded refund that was lowered",
      `UPDATE daily_totals SET refunded = 0 WHERE ${oldDay}`,
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "folded totals that were removed",
      `DELETE FROM daily_totals WHERE ${oldDay}`,
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "folded totals below what is there",
      "UPDATE retention SET kept_since = 1767312000000; UPDATE daily_totals SET requests = 1 WHERE day = 20454 AND key_id = 1",
      `${ofToday}: are not the sum`,
    ],
    [
      "requests said to be kept that are folded",
      "UPDATE retention SET kept_since = 0",
      `${ofOldDay}: are not the sum`,
    ],
    [
      "no word of what is folded",
      "DELETE FROM retention",
      "retention: does not have exactly one row",
    ],
    ["no counter of changes", "DELETE FROM changes", "changes: does not have exactly one row"],
    [
      "two counters of changes",
      "INSERT INTO changes VALUES (2, 0)",
      "changes: does not have exactly one row",
    ],
    [
      "a charge too many among folded ones",
      foldedCharge("alice"),
      "account alice: charges and refunds are not what the totals count",
    ],
    [
      "a charge of a request that there never was",
      foldedCharge("bob"),
      "account bob: charges and refunds are not what the totals count",
    ],
    [
      "a key said to have spent less",
      "UPDATE keys SET spent = 0 WHERE public_id = 'key_alice'",
      "key key_alice: spent is not the sum",
    ],
    [
      "a key that spent apart from its line",
      "UPDATE keys SET spent = 10295 WHERE public_id = 'key_next'",
      "key key_next: spent is not the sum",
    ],
    [
      "a key taken out of its line",
      "UPDATE keys SET first_key_id = NULL WHERE public_id = 'key_next'",
      "key key_next: spent is not the sum",
    ],
    [
      "a line that begins in another account",
      "UPDATE keys SET first_key_id = 2 WHERE public_id = 'key_next'",
      "key key_next: its rotation chain",
    ],
    [
      "a refund of nothing",
      "UPDATE ledger SET refund_of = NULL WHERE amount = 295",
      "refunds no charge of its account",
    ],
    [
      "a refund of a credit",
      "UPDATE ledger SET refund_of = 1 WHERE amount = 295",
      "refunds no charge of its account",
    ],
    [
      "a refund of a charge that moved to another account",
      "UPDATE requests SET account_id = 2 WHERE public_id = 'req_part'",
      "refunds no charge of its account",
    ],
    [
      "a credit that claims to be a refund",
      "UPDATE ledger SET refund_of = 5 WHERE id = 1",
      "ledger row 1: refunds no charge",
    ],
    [
      "more given back than was charged",
      "UPDATE ledger SET amount = 10296 WHERE amount = 295",
      "account alice, row 7: more was refunded than it charged",
    ],
    [
      "more given back than a folded request was charged",
      "UPDATE ledger SET amount = 10296 WHERE amount = 10295",
      "account alice, row 3: more was refunded than it charged",
    ],
    [
      "refunds that leave 64 bits",
      "UPDATE ledger SET amount = 9223372036854775807 WHERE kind = 'refund'",
      "more was refunded than it charged",
    ],
  ])("%s", async (_, statements, problem) => {
    await ledger.tamper(...statements.split("; "));
    expect((await ledger.audit()).problems).toContainEqual(expect.stringContaining(problem));
  });
});

test("the audit finds damage of the file itself", async () => {
  const { path, folder } = storeFolder;
  const copy = join(folder, "copy.db");
  const sqlite = new Database(path);
  sqlite.run(`VACUUM INTO '${copy}'`);
  sqlite.close();
  const whole = new Database(copy, { readonly: true });
  const index = whole
    .query<{ page: number }, []>(
      "SELECT rootpage AS page FROM sqlite_schema WHERE name = 'ledger_account_seq'",
    )
    .get();
  whole.close();
  const bytes = readFileSync(copy);
  // The number of entries on that page, which hides the rows from lookups.
  bytes.writeUInt16BE(0, ((index?.page ?? 0) - 1) * PAGE_BYTES + 3);
  writeFileSync(copy, bytes);
  const damaged = openStore({ path: copy, durability: "process", serving: false });
  const report = await damaged.auditHere();
  const beside = await damaged.audit();
  damaged.closeNow();
  const problem = expect.stringMatching(/^database file: .*ledger_account_seq/);
  expect(report.problems).toContainEqual(problem);
  expect(beside).toEqual(report);
});
