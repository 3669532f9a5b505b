import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { openStore } from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { fund, recordMany, running } from "../support/store/storeFolder.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const storeFolder = openSampleLedgerBefore();

function start(): void {
  openStore({ path: storeFolder.path, durability: "process", serving: true }).closeNow();
}

/** One line, which names the problem and what to do. */
function refuses(problem: string): void {
  expect(start).toThrow(StoreError);
  expect(start).toThrow(problem);
  expect(start).toThrow(/^[^\n]*`tollgate restore FILE` puts a backup in its place$/);
}

describe("a gateway starts", () => {
  test("on a store with every kind of booking", start);

  test("on a store with running requests and a reserve", async () => {
    const carol = await fund(storeFolder.store, "carol", 1_000_000n);
    await storeFolder.record(running("req_open", carol));
    await storeFolder.reserve(carol.accountId, 1_000_000n);
    start();
    expect(storeFolder.store.interruptRunning()).toMatchObject({ count: 1 });
    start();
  });

  test("on a store with damage that is older than the last rows, which the audit finds", async () => {
    const carol = await fund(storeFolder.store, "carol", 1_000_000_000n);
    const ids = Array.from({ length: 600 }, (_, index) => `req_${index}`);
    await recordMany(storeFolder, carol, ids);
    tamper(storeFolder, "UPDATE requests SET write_off = 1 WHERE public_id = 'req_0'");
    start();
    expect((await storeFolder.store.auditHere()).problems).not.toEqual([]);
  });
});

describe("no gateway starts on a store of which", () => {
  test("the schema lacks a trigger; the audit names it, and commands still go on", async () => {
    const sqlite = new Database(storeFolder.path);
    sqlite.run("DROP TRIGGER ledger_keeps_all");
    sqlite.close();
    const problem = "trigger ledger_keeps_all is missing or not the program's own";
    refuses(`the schema of the database is not tollgate's: ${storeFolder.path} (${problem})`);
    expect((await storeFolder.store.auditHere()).problems).toEqual([`schema: ${problem}`]);
    openStore({ path: storeFolder.path, durability: "process", serving: false }).closeNow();
  });

  test.each([
    [
      "a balance is not that of its last row",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'alice'",
      "account alice: balance is not that of its last row",
    ],
    [
      "a balance is not that of its last credit",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      "account bob: balance is not that of its last row",
    ],
    [
      "a charge did not move the balance",
      "UPDATE accounts SET balance = balance + 10295, ledger_seq = 8 WHERE name = 'alice'",
      "account alice: balance is not that of its last row",
    ],
    [
      "a balance stayed behind its ledger",
      "UPDATE accounts SET (balance, ledger_seq) = (SELECT balance_after, ledger_seq FROM requests WHERE public_id = 'req_done') WHERE name = 'alice'",
      "account alice: balance is not that of its last row",
    ],
    [
      "a balance has no row",
      "UPDATE accounts SET ledger_seq = 10 WHERE name = 'alice'",
      "account alice: balance is not that of its last row",
    ],
    [
      "a charge does not follow",
      "UPDATE requests SET balance_after = balance_after - 1 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow from the row before it",
    ],
    [
      "a charge is gone",
      "DELETE FROM requests WHERE public_id = 'req_cancelled'",
      "account alice, row 7: does not follow from the row before it",
    ],
    [
      "a refund is gone",
      "DELETE FROM ledger WHERE amount = 295",
      "account alice, row 9: does not follow from the row before it",
    ],
    [
      "a folded charge is gone",
      "DELETE FROM ledger WHERE ref = 'req:req_old_refunded'",
      "account alice, row 4: does not follow from the row before it",
    ],
    [
      "a folding was committed in half",
      "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT account_id, ledger_seq, 'charge', -charge, balance_after, 'req:' || public_id, at FROM requests WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow from the row before it",
    ],
    [
      "an end was committed in half",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_done'",
      "request req_done: has a charge without a place in the ledger, or a place without a charge",
    ],
    [
      "a charge is not that of its place",
      "UPDATE requests SET charge = charge - 1, write_off = write_off + 1 WHERE public_id = 'req_done'",
      "account alice, row 5: does not follow from the row before it",
    ],
    [
      "tokens were changed",
      "UPDATE requests SET prompt_tokens = prompt_tokens + 1 WHERE public_id = 'req_part'",
      "request req_part: charge and write-off are not the price of its usage",
    ],
    [
      "attempts are gone",
      "DELETE FROM attempts WHERE n = 2",
      "does not have as many attempts as it counts",
    ],
  ])("%s", (_, statement, problem) => {
    tamper(storeFolder, statement);
    refuses(problem);
  });
});
