import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { openStore, StoreError } from "../../src/store/store.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { fund, opened } from "../support/store/storeFolder.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const storeFolder = openSampleLedgerBefore();

function start(): void {
  openStore({ path: storeFolder.path, durability: "process", serving: true }).close();
}

/** One line, which names the problem and what to do. */
function refuses(problem: string): void {
  expect(start).toThrow(StoreError);
  expect(start).toThrow(problem);
  expect(start).toThrow(/^[^\n]*`tollgate restore FILE` puts a backup in its place$/);
}

describe("a gateway starts", () => {
  test("on a store with every kind of booking", start);

  test("on a store with requests in flight", async () => {
    const carol = fund(storeFolder.store, "carol", 1_000_000n);
    await storeFolder.writer.write({ kind: "openRequest", request: opened("req_open", carol) });
    start();
    expect(storeFolder.store.interruptRunning()).toMatchObject({ count: 1 });
    start();
  });
});

describe("no gateway starts on a store of which", () => {
  test("the schema lacks a trigger; the audit names it, and commands still go on", () => {
    const sqlite = new Database(storeFolder.path);
    sqlite.run("DROP TRIGGER ledger_keeps_all");
    sqlite.close();
    const problem = "trigger ledger_keeps_all is missing or not the program's own";
    refuses(`the schema of the database is not tollgate's: ${storeFolder.path} (${problem})`);
    expect(storeFolder.store.audit().problems).toEqual([`schema: ${problem}`]);
    openStore({ path: storeFolder.path, durability: "process", serving: false }).close();
  });

  test.each([
    [
      "a balance is not that of its last ledger row",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'alice'",
      "account alice: balance is not that of its last ledger row",
    ],
    [
      "a balance stayed behind its ledger",
      "UPDATE accounts SET (balance, ledger_seq) = (SELECT balance_after, seq FROM ledger WHERE account_id = accounts.id AND seq = 3) WHERE name = 'alice'",
      "account alice: balance is not that of its last ledger row",
    ],
    [
      "a ledger row was changed",
      "UPDATE ledger SET amount = amount - 1 WHERE ref = 'req:req_done'",
      "does not follow from the row before it",
    ],
    [
      "a ledger row is gone",
      "DELETE FROM ledger WHERE ref = 'req:req_cancelled'",
      "does not follow from the row before it",
    ],
    [
      "an end was committed in half",
      "UPDATE requests SET status = 'running' WHERE public_id = 'req_done'",
      "request req_done: has a charge in the ledger, but nothing was to be charged",
    ],
    [
      "a charge is not that of its request",
      "UPDATE requests SET charge = charge - 1, write_off = write_off + 1 WHERE public_id = 'req_done'",
      "request req_done: has no matching charge in the ledger",
    ],
    [
      "tokens were changed",
      "UPDATE requests SET prompt_tokens = prompt_tokens + 1 WHERE public_id = 'req_part'",
      "request req_part: charge and write-off are not the price of its tokens",
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
