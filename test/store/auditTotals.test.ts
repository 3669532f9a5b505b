import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openAuditedBooks, tamper } from "../support/store/auditedBooks.ts";
import type { StoreFolder } from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
beforeEach(async () => {
  storeFolder = await openAuditedBooks();
});
afterEach(() => storeFolder.close());

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

describe("the audit finds", () => {
  test.each([
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
      "a folded charge that nobody counts",
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
    ["no word of what is folded", "DELETE FROM retention", "retention: has not the one row"],
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
      "key key_next: its line of rotated keys",
    ],
    [
      "a refund of nothing",
      "UPDATE ledger SET refund_of = NULL WHERE amount = 295",
      "gives back no charge of its account",
    ],
    [
      "a refund of a credit",
      "UPDATE ledger SET refund_of = 1 WHERE amount = 295",
      "gives back no charge of its account",
    ],
    [
      "a refund of another account's charge",
      "UPDATE ledger SET account_id = 2 WHERE ref = 'req:req_part'",
      "gives back no charge of its account",
    ],
    [
      "a credit that claims to be a refund",
      "UPDATE ledger SET refund_of = 3 WHERE id = 1",
      "ledger row 1: gives back no charge",
    ],
    [
      "more given back than was charged",
      "UPDATE ledger SET amount = 10296 WHERE amount = 295",
      "more was given back than it charged",
    ],
    [
      "refunds that leave 64 bits",
      "UPDATE ledger SET amount = 9223372036854775807 WHERE kind = 'refund'",
      "more was given back than it charged",
    ],
  ])("%s", (_, statements, problem) => {
    tamper(storeFolder, ...statements.split("; "));
    expect(storeFolder.store.audit().problems).toContainEqual(expect.stringContaining(problem));
  });
});
