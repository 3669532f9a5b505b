import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/store/store.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { ended, fund, opened } from "../support/store/storeFolder.ts";
import { cpuTimer } from "../support/measurement.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

/** Of a file that SQLite made without being asked for another. */
const PAGE_BYTES = 4096;

const storeFolder = openSampleLedgerBefore();

const ofToday = "totals of 2026-01-01 (key row 1, chat, small, local)";
const ofOldDay = "totals of 2025-12-30 (key row 1, chat, small, local)";
const today = "day = 20454 AND key_id = 1";
const oldDay = "day = 20452 AND provider = 'local'";
/** A charge at the end of alice's ledger, where everything follows from what is before. */
const chargeMore = [
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT id, ledger_seq + 1, 'charge', -5, balance - 5, 'req:x', 0 FROM accounts WHERE name = 'alice'",
  "UPDATE accounts SET balance = balance - 5, ledger_seq = ledger_seq + 1 WHERE name = 'alice'",
].join("; ");
const chargeBob = chargeMore.replaceAll("alice", "bob");

const right = { accounts: 2, requests: 4, problems: [], notes: [] };

test("the audit of an untouched store finds no problem", () => {
  expect(storeFolder.store.audit()).toEqual(right);
});

test("an audit with two threads finds the same problems", async () => {
  expect(await storeFolder.store.auditInParallel()).toEqual(right);
  tamper(storeFolder, "DELETE FROM attempts WHERE n = 2");
  const report = await storeFolder.store.auditInParallel();
  expect(report.problems).not.toBeEmpty();
  expect(report).toEqual(storeFolder.store.audit());
});

test("a hold that a crash left is a note, not a problem", async () => {
  const [key] = storeFolder.store.keys.list("bob");
  const owner = { accountId: key?.accountId ?? 0, keyId: key?.id ?? 0 };
  await storeFolder.writer.write({ kind: "openRequest", request: opened("req_open", owner) });
  const notes = ["request req_open: interrupted, its hold is released when the gateway starts"];
  expect(storeFolder.store.audit()).toEqual({ ...right, requests: 5, notes });
  storeFolder.store.interruptRunning();
  expect(storeFolder.store.audit()).toEqual({ ...right, requests: 5 });
});

test("the audit of thousands of requests is done at once: no check compares each with each", async () => {
  const carol = fund(storeFolder.store, "carol", 10_000_000_000n);
  const ids = Array.from({ length: 5000 }, (_, index) => `req_many_${index}`);
  await Promise.all(
    ids.flatMap((id) => [
      storeFolder.writer.write({ kind: "openRequest", request: opened(id, carol) }),
      storeFolder.writer.write({ kind: "settleRequest", settlement: ended(id) }),
    ]),
  );
  const spentMs = cpuTimer();
  expect(storeFolder.store.audit()).toEqual({ ...right, accounts: 3, requests: 5004 });
  expect(spentMs()).toBeLessThan(1500);
}, 20_000);

describe("the audit finds", () => {
  test.each([
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
      "the last ledger row removed, and the balance with it",
      "DELETE FROM ledger WHERE ref = 'req:req_next'; UPDATE accounts SET balance = balance + 10295, ledger_seq = ledger_seq - 1 WHERE name = 'alice'",
      "request req_next: has no matching charge",
    ],
    [
      "an amount that was changed",
      "UPDATE ledger SET amount = amount + 1 WHERE account_id = 2",
      "ledger row 2: does not follow",
    ],
    [
      "a balance after that was changed",
      "UPDATE ledger SET balance_after = balance_after + 1 WHERE account_id = 2",
      "ledger row 2: does not follow",
    ],
    [
      "a ledger row put in between",
      "UPDATE ledger SET seq = seq + 1 WHERE account_id = 2",
      "ledger row 2: does not follow",
    ],
    [
      "a ledger row moved to another account",
      "UPDATE ledger SET account_id = 2, seq = 2 WHERE ref = 'req:req_next'",
      "request req_next: has no matching charge",
    ],
    [
      "a ledger row of no account",
      "UPDATE ledger SET account_id = 9 WHERE account_id = 2",
      "ledger row 2: belongs to no account",
    ],
    [
      "a credit said to be a debit",
      "UPDATE ledger SET kind = 'debit' WHERE account_id = 2",
      "ledger row 2: has an amount or a ref that its kind excludes",
    ],
    [
      "amounts that leave 64 bits together",
      "UPDATE ledger SET amount = 9223372036854775807",
      "account bob: balance is not the sum",
    ],
    [
      "an overdraft below the debt",
      "UPDATE accounts SET overdraft = -2000000 WHERE name = 'alice'",
      "account alice: balance is below its overdraft",
    ],
    [
      "more held than there is",
      "UPDATE requests SET status = 'running', hold = 2000000 WHERE public_id = 'req_done'",
      "account alice: more is held",
    ],
    [
      "a charge that was lowered",
      "UPDATE requests SET charge = 1 WHERE public_id = 'req_done'",
      "request req_done: has no matching charge",
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
      "request req_done: has a charge in the ledger, but nothing",
    ],
    [
      "a charged request that is said to run",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_done'",
      "request req_done: has a charge in the ledger, but nothing",
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
      "INSERT INTO daily_totals SELECT 20460, account_id, key_id, model, provider, endpoint, requests, failed, charged, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, charge, refunded, write_off, operator_cost FROM daily_totals WHERE day = 20454 AND key_id = 1",
      "totals of 2026-01-07 (key row 1, chat, small, local): are not the sum",
    ],
    [
      "a folded charge that was lowered",
      `UPDATE daily_totals SET charge = charge - 1 WHERE ${oldDay}`,
      "account alice: charges of its folded requests are not",
    ],
    [
      "a folded charge without totals",
      `UPDATE daily_totals SET charged = charged - 1 WHERE ${oldDay}`,
      "account alice: charges of its folded requests are not",
    ],
    [
      "a folded refund that was lowered",
      `UPDATE daily_totals SET refunded = 0 WHERE ${oldDay}`,
      "account alice: refunds are not",
    ],
    [
      "folded totals that were removed",
      `DELETE FROM daily_totals WHERE ${oldDay}`,
      "is a charge for no request",
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
    [
      "a charge too many among folded ones",
      chargeMore,
      "account alice: charges of its folded requests are not",
    ],
    [
      "a charge of a request that there never was",
      chargeBob,
      "ledger row 11: is a charge for no request",
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
      "a refund of another account's charge",
      "UPDATE ledger SET account_id = 2 WHERE ref = 'req:req_part'",
      "refunds no charge of its account",
    ],
    [
      "a credit that claims to be a refund",
      "UPDATE ledger SET refund_of = 3 WHERE id = 1",
      "ledger row 1: refunds no charge",
    ],
    [
      "more given back than was charged",
      "UPDATE ledger SET amount = 10296 WHERE amount = 295",
      "more was refunded than it charged",
    ],
    [
      "refunds that leave 64 bits",
      "UPDATE ledger SET amount = 9223372036854775807 WHERE kind = 'refund'",
      "more was refunded than it charged",
    ],
  ])("%s", (_, statements, problem) => {
    tamper(storeFolder, ...statements.split("; "));
    expect(storeFolder.store.audit().problems).toContainEqual(expect.stringContaining(problem));
  });

  test("damage of the file itself", async () => {
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
    const report = damaged.audit();
    const beside = await damaged.auditInParallel();
    damaged.close();
    const problem = expect.stringMatching(/^database file: .*ledger_account_seq/);
    expect(report.problems).toContainEqual(problem);
    expect(beside).toEqual(report);
  });
});
