import { describe, expect, test } from "bun:test";
import { dirname, join, relative } from "node:path";
import { tamper, copySampleLedgerBefore } from "../store/sampleLedger.ts";
import { auditFile } from "./auditor.ts";

const database = copySampleLedgerBefore();
const voucherInto =
  "INSERT INTO vouchers (public_id, hash, prefix, created_at, amount, expires_at, redeemed_at, redeemed_by) VALUES ('vch_x', x'01', '7Q2MV', 0,";

test("the auditor shares no code with the gateway", async () => {
  const root = join(import.meta.dir, "../../..");
  const waiting = [join(import.meta.dir, "auditor.ts")];
  const read = new Set<string>();
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (read.has(file)) continue;
    read.add(file);
    const imports = new Bun.Transpiler({ loader: "ts" }).scanImports(await Bun.file(file).text());
    const own = imports.filter(({ path }) => path.startsWith("."));
    for (const { path } of own) waiting.push(join(dirname(file), path));
  }
  const files = [...read].map((file) => relative(root, file));
  expect(files.length).toBeGreaterThan(5);
  expect(files.filter((file) => !file.startsWith("test/support/"))).toEqual([]);
});

test("the auditor finds no problem in an undamaged database, also with folded requests", () => {
  expect(auditFile(database.path)).toEqual([]);
});

describe("the auditor reports damage of the database:", () => {
  test.each([
    [
      "a balance that was raised",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      ["bob has 500001 after 1 rows, and its 1 rows sum to 500000"],
    ],
    [
      "a balance after a credit that does not follow",
      "UPDATE ledger SET balance_after = balance_after + 1 WHERE account_id = 2",
      ["row 1 of bob leaves 500001, and the sum so far is 500000"],
    ],
    [
      "a balance after a charge that does not follow",
      "UPDATE requests SET balance_after = balance_after + 1 WHERE public_id = 'req_done'",
      [
        "row 5 of alice leaves 979411, and the sum so far is 979410",
        "row 6 of alice leaves 969115, and the sum so far is 969116",
      ],
    ],
    [
      "a gap",
      "UPDATE ledger SET seq = 2 WHERE account_id = 2",
      ["row 2 of bob comes where 1 is next"],
    ],
    [
      "a number in both tables",
      "UPDATE ledger SET seq = 9 WHERE amount = 295",
      ["row 9 of alice comes where 8 is next", "row 9 of alice comes where 10 is next"],
    ],
    [
      "a debit that adds",
      "UPDATE ledger SET kind = 'debit' WHERE account_id = 2",
      ["row 1 of bob is a debit of 500000, ref null"],
    ],
    [
      "a row of no account",
      "UPDATE ledger SET account_id = 9 WHERE account_id = 2",
      ["row 9:1 is of no account", "bob has 500000 after 1 rows, and its 0 rows sum to 0"],
    ],
    [
      "a done request without a place",
      `UPDATE requests SET ledger_seq = NULL, balance_after = NULL WHERE public_id = 'req_next';
       UPDATE accounts SET balance = balance + 10295, ledger_seq = ledger_seq - 1 WHERE name = 'alice'`,
      [
        "req_next is done for 10295, and is row null of its account, which leaves null",
        "the history of alice has charges and refunds of 5, 51475, 10590, its totals of 6, 61770, 10590",
      ],
    ],
    [
      "a charge whose account was not moved",
      "UPDATE accounts SET balance = balance + 10295, ledger_seq = ledger_seq - 1 WHERE name = 'alice'",
      ["alice has 959115 after 8 rows, and its 9 rows sum to 948820"],
    ],
    [
      "a charge that was doubled",
      `INSERT INTO ledger SELECT 99, account_id, ledger_seq + 1, 'charge', -charge, balance_after - charge, 'req:twice', NULL, NULL, at, NULL
         FROM requests WHERE public_id = 'req_next';
       UPDATE accounts SET balance = balance - 10295, ledger_seq = ledger_seq + 1 WHERE name = 'alice'`,
      [
        "the history of alice has charges and refunds of 7, 72065, 10590, its totals of 6, 61770, 10590",
      ],
    ],
    [
      "a request with the id of a folded one",
      "UPDATE requests SET public_id = 'req_old' WHERE public_id = 'req_next'",
      ["row 1:9 has the ref req:req_old once more"],
    ],
    [
      "a reserve above what the account can pay",
      "UPDATE accounts SET reserved = 500001 WHERE name = 'bob'",
      ["bob has 500000 and 0 beyond it, and 500001 are reserved"],
    ],
    ["no counter of changes", "DELETE FROM changes", ["there are 0 counters of changes"]],
    [
      "a redeemed voucher without its credit",
      `${voucherInto} 500000, NULL, 5, 2)`,
      ["voucher vch_x of 500000 is redeemed without its credit"],
    ],
    [
      "a credit of another amount than its voucher",
      `${voucherInto} 5, NULL, 5, 2); UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2`,
      ["voucher vch_x of 5 is redeemed without its credit"],
    ],
    [
      "a credit of a voucher that another account redeemed",
      `${voucherInto} 500000, NULL, 5, 1); UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2`,
      ["voucher vch_x of 500000 is redeemed without its credit"],
    ],
    [
      "a credit of an open voucher",
      `${voucherInto} 500000, NULL, NULL, NULL); UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2`,
      ["voucher vch_x is not redeemed, and has 1 credits"],
    ],
    [
      "a credit of a voucher that was redeemed too late, and revoked",
      `${voucherInto} 500000, 5, 5, 2); UPDATE vouchers SET revoked_at = 5; UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2`,
      ["voucher vch_x is redeemed and revoked", "voucher vch_x was redeemed after its end"],
    ],
    [
      "a credit of no voucher",
      "UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2",
      ["ledger row 2 is of no voucher"],
    ],
    [
      "no damage where the ref is older than vouchers",
      "UPDATE ledger SET ref = 'voucher:vch_x' WHERE account_id = 2; UPDATE voucher_start SET ledger_id = 2",
      [],
    ],
    [
      "a failed request that was charged",
      "UPDATE requests SET status = 'failed' WHERE public_id = 'req_done'",
      [
        "req_done is failed, and bills 10295",
        "req_done is failed for 10295, and is row 5 of its account, which leaves 979410",
        expect.stringContaining("have 0 failed, not 1"),
        expect.stringContaining("have 3 charged, not 2"),
      ],
    ],
    [
      "a write-off that is not the rest of the price",
      "UPDATE requests SET write_off = 5 WHERE public_id = 'req_done'",
      [
        "req_done bills 10295 and writes off 5, and its tokens cost 10295",
        "req_done writes off 5, and 100000 were held for a charge of 10295",
        expect.stringContaining("have 0 writeOff, not 5"),
      ],
    ],
    [
      "a price that was changed afterwards",
      "UPDATE requests SET price_output = 201 WHERE public_id = 'req_done'",
      ["req_done bills 10295 and writes off 0, and its tokens cost 10335"],
    ],
    [
      "cached tokens beyond the prompt",
      "UPDATE requests SET cached_tokens = 101 WHERE public_id = 'req_done'",
      [
        "req_done has something less than nothing",
        "req_done says that its cache saved 205, and it saved 2298",
        expect.stringContaining("have 30 cached, not 121"),
      ],
    ],
    [
      "an estimate above what was held",
      "UPDATE requests SET estimated = 1, hold = 10294 WHERE public_id = 'req_done'",
      ["req_done is estimated at 10295, and 10294 were held"],
    ],
    [
      "an attempt that is gone",
      "DELETE FROM attempts WHERE n = 1 AND request_id = (SELECT id FROM requests WHERE public_id = 'req_done')",
      ["req_done counts 2 attempts, and has 2"],
    ],
    [
      "all attempts of a request with two",
      "DELETE FROM attempts WHERE request_id = (SELECT id FROM requests WHERE public_id = 'req_done')",
      ["req_done counts 2 attempts, and has none"],
    ],
    [
      "an attempt of no request",
      "INSERT INTO attempts VALUES (99, 1, 'local', 'ok', 200, 5)",
      ["attempt 1 is of request row 99, which is not there"],
    ],
    [
      "a request that was counted twice",
      "UPDATE daily_totals SET requests = requests + 1 WHERE day = 20454 AND requests = 1",
      [expect.stringContaining("have 2 requests, not 1")],
    ],
    [
      "a folded charge that the totals do not have",
      "UPDATE daily_totals SET charge = charge - 1 WHERE day < 20454",
      [
        "the history of alice has charges and refunds of 6, 61770, 10590, its totals of 6, 61769, 10590",
        "key_alice is said to have spent 51180, not 51179",
      ],
    ],
    [
      "a key that is said to have spent less",
      "UPDATE keys SET spent = spent - 1 WHERE public_id = 'key_alice'",
      ["key_alice is said to have spent 51179, not 51180"],
    ],
    [
      "a refund of more than was charged",
      "UPDATE ledger SET amount = 20000, balance_after = balance_after + 9705 WHERE kind = 'refund' AND amount = 10295",
      [
        "row 5 of alice leaves 979410, and the sum so far is 989115",
        "alice has 948820 after 9 rows, and its 9 rows sum to 958525",
        "row 1:4 makes 20000 that are given back of 10295",
        "the history of alice has charges and refunds of 6, 61770, 20295, its totals of 6, 61770, 10590",
      ],
    ],
  ])("%s", (_, statements, problems) => {
    tamper(database, ...statements.split(";"));
    expect(auditFile(database.path)).toEqual(problems);
  });

  test("a request that is open at rest", () => {
    tamper(
      database,
      `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status, hold,
           price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output,
           figures_price)
         SELECT 'req_open', at, 2, (SELECT id FROM keys WHERE account_id = 2), endpoint, model, stream, 'running',
           100000, 25, 2, 30, 50, 200, 500 FROM requests WHERE public_id = 'req_done'`,
    );
    expect(auditFile(database.path, {}, false)).toEqual([]);
    expect(auditFile(database.path)).toEqual(["req_open is running at rest, and holds 100000"]);
  });
});
