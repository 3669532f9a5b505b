import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/store/store.ts";
import { ended, fund, opened, openStoreFolder, type StoreFolder } from "../support/storeFolder.ts";

/** Of a file that SQLite made without being asked for another. */
const PAGE_BYTES = 4096;

let books: StoreFolder;
beforeEach(async () => {
  books = await openStoreFolder();
  const alice = fund(books.store, "alice", 1_000_000n);
  fund(books.store, "bob", 500_000n);
  for (const id of ["req_done", "req_cancelled"]) {
    await books.writer.write({ kind: "open", request: opened(id, alice) });
  }
  await books.writer.write({ kind: "end", end: ended("req_done") });
  await books.writer.write({ kind: "end", end: ended("req_cancelled", { status: "cancelled" }) });
});
afterEach(() => books.close());

/** Does what the triggers and constraints forbid, as someone with the file in hand could. */
function tamper(...statements: readonly string[]): void {
  const sqlite = new Database(books.path);
  sqlite.run("PRAGMA foreign_keys = OFF");
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  const triggers = sqlite
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    .all();
  for (const { name } of triggers) sqlite.run(`DROP TRIGGER ${name}`);
  for (const statement of statements) sqlite.run(statement);
  sqlite.close();
}

test("the audit of books that nobody touched finds nothing", () => {
  expect(books.store.audit()).toEqual({ accounts: 2, requests: 2, problems: [] });
});

test("the audit of thousands of requests is done at once: no check compares each with each", async () => {
  const carol = fund(books.store, "carol", 10_000_000_000n);
  const ids = Array.from({ length: 5000 }, (_, index) => `req_many_${index}`);
  await Promise.all(
    ids.flatMap((id) => [
      books.writer.write({ kind: "open", request: opened(id, carol) }),
      books.writer.write({ kind: "end", end: ended(id) }),
    ]),
  );
  const startedMs = performance.now();
  expect(books.store.audit()).toEqual({ accounts: 3, requests: 5002, problems: [] });
  expect(performance.now() - startedMs).toBeLessThan(1500);
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
      "DELETE FROM ledger WHERE ref = 'req:req_cancelled'; UPDATE accounts SET balance = balance + 10295, ledger_seq = 2 WHERE name = 'alice'",
      "request req_cancelled: has no charge",
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
      "UPDATE ledger SET account_id = 2, seq = 2 WHERE ref = 'req:req_cancelled'",
      "request req_cancelled: has no charge",
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
      "request req_done: has no charge in the ledger that fits",
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
      "request req_done: has a charge in the ledger though nothing",
    ],
    [
      "a charge of a request that was removed",
      "DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_done'",
      "ledger row 3: is a charge for no request",
    ],
    [
      "a key said to have spent less",
      "UPDATE keys SET spent = 0 WHERE public_id = 'key_alice'",
      "key key_alice: spent is not the sum",
    ],
    [
      "a request moved to another account",
      "UPDATE requests SET account_id = 2 WHERE public_id = 'req_done'",
      "request req_done: belongs to another account",
    ],
    [
      "an attempt that was removed",
      "DELETE FROM attempts WHERE request_id = 1 AND n = 2",
      "request req_done: attempts are not as many as it counts",
    ],
    [
      "attempts that were made up",
      "UPDATE requests SET attempt_count = 0 WHERE public_id = 'req_done'",
      "request req_done: attempts are not as many as it counts",
    ],
    [
      "an attempt for a request that is not there",
      "INSERT INTO attempts VALUES (99, 1, 'local', 'ok', 200, 5)",
      "attempt 1 of request row 99: belongs to no request",
    ],
    [
      "a request that nobody ends",
      "UPDATE requests SET status = 'running', charge = 0, prompt_tokens = 0, cached_tokens = 0, cache_write_tokens = 0, completion_tokens = 0 WHERE public_id = 'req_done'",
      "request req_done: still held",
    ],
  ])("%s", (_, statements, problem) => {
    tamper(...statements.split("; "));
    const { problems } = books.store.audit();
    expect(problems).toContainEqual(expect.stringContaining(problem));
  });

  test("damage of the file itself", async () => {
    const { path, folder } = books;
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
    // The number of entries on that page, which thereby hides the rows from whoever looks them up.
    bytes.writeUInt16BE(0, ((index?.page ?? 0) - 1) * PAGE_BYTES + 3);
    writeFileSync(copy, bytes);
    const damaged = openStore({ path: copy, durability: "process", serving: false });
    const { problems } = damaged.audit();
    damaged.close();
    expect(problems).toContainEqual(expect.stringMatching(/^database file: .*ledger_account_seq/));
  });
});
