import { beforeEach, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { describeAudited } from "../support/store/auditedLedger.ts";
import { actor, ended, fund, type StoreFolder } from "../support/store/storeFolder.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const INT64_MAX = "9223372036854775807";

/** Besides what happened before, carol has two requests on 2026-01-02: a day of which all is kept, and nothing refunded. */
async function addCarol(folder: StoreFolder): Promise<void> {
  const carol = await fund(folder.store, "carol", 1_000_000n);
  for (const id of ["req_one", "req_two"])
    await folder.record(ended(id, carol, { at: actor.at + DAY_MS }));
}

const isCarols = "day = 20455";
const ofCarol = "totals of 2026-01-02 (key row 4, chat, small, local)";
const chargeCarol = (ref: string): string[] => [
  `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT id, ledger_seq + 1, 'charge', -10295, balance - 10295, '${ref}', 0 FROM accounts WHERE name = 'carol'`,
  "UPDATE accounts SET balance = balance - 10295, ledger_seq = ledger_seq + 1 WHERE name = 'carol'",
];
const COLUMNS =
  "at, account_id, key_id, endpoint, model, provider, stream, status, price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output, figures_price, hold, charge, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, operator_cost";
describeAudited(
  "on a plain day",
  (ledger) => {
    test("the audit finds no problem in a day without folded or refunded requests", async () => {
      expect((await ledger.audit()).problems).toEqual([]);
    });

    test.each([
      "requests",
      "failed",
      "charged",
      "prompt_tokens",
      "cached_tokens",
      "cache_write_tokens",
      "cache_write_1h_tokens",
      "completion_tokens",
      "charge",
      "refunded",
      "write_off",
      "operator_cost",
    ])("the audit finds a plain day's %s that were raised", async (figure) => {
      await ledger.tamper(`UPDATE daily_totals SET ${figure} = ${figure} + 1 WHERE ${isCarols}`);
      expect((await ledger.audit()).problems).toContain(
        `${ofCarol}: are not the sum of their requests`,
      );
    });

    test("the audit of a plain day takes sums that leave 64 bits for right where the totals stay at the largest number", async () => {
      await ledger.tamper(
        `UPDATE requests SET operator_cost = ${INT64_MAX} WHERE account_id = 3`,
        `UPDATE daily_totals SET operator_cost = ${INT64_MAX} WHERE ${isCarols}`,
      );
      expect((await ledger.audit()).problems).toEqual([]);
    });

    test.each([
      [
        "totals of a plain day that were removed",
        [`DELETE FROM daily_totals WHERE ${isCarols}`],
        `${ofCarol}: leave out requests that are there`,
      ],
      [
        "totals of a plain day that were made up",
        [
          `INSERT INTO daily_totals SELECT day, account_id, key_id, 'other', provider, endpoint, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0 FROM daily_totals WHERE ${isCarols}`,
        ],
        "totals of 2026-01-02 (key row 4, chat, other, local): are not the sum of their requests",
      ],
      [
        "a folded charge that moved to another account",
        [
          "UPDATE ledger SET account_id = 3, seq = 4 WHERE ref = 'req:req_old'",
          "UPDATE accounts SET ledger_seq = 4 WHERE name = 'carol'",
        ],
        "account alice, row 3: does not follow from the row before it",
      ],
      [
        "a charge that says in another form which request it is of",
        ["UPDATE ledger SET ref = 'REQ:req_old' WHERE ref = 'req:req_old'"],
        "ledger row 5: has an amount or a ref that its kind excludes",
      ],
      [
        "a folded charge without totals on a plain day",
        chargeCarol("req:x"),
        "account carol: charges and refunds are not what the totals count",
      ],
      [
        "a request that was charged twice",
        chargeCarol("req:req_two"),
        "request req_two: was folded, but is there",
      ],
    ])("the audit finds %s", async (_, statements, problem) => {
      await ledger.tamper(...statements);
      expect((await ledger.audit()).problems).toContain(problem);
    });
  },
  addCarol,
);

describe("the unique indexes of SQLite", () => {
  const storeFolder = openSampleLedgerBefore();
  beforeEach(() => addCarol(storeFolder));
  const audit = async (): Promise<string[]> => (await storeFolder.store.auditHere()).problems;

  /** A second request of the same id, counted as the first one is. */
  const doubleRequest = [
    "DROP INDEX requests_public_id_unique",
    `INSERT INTO requests (public_id, ledger_seq, balance_after, ${COLUMNS}) SELECT public_id, 4, balance - charge, ${COLUMNS} FROM requests, (SELECT balance FROM accounts WHERE name = 'carol') WHERE public_id = 'req_one'`,
    "UPDATE accounts SET balance = balance - 10295, ledger_seq = 4 WHERE name = 'carol'",
    `UPDATE daily_totals SET requests = 3, charged = 3, prompt_tokens = prompt_tokens * 3 / 2, cached_tokens = cached_tokens * 3 / 2, cache_write_tokens = cache_write_tokens * 3 / 2, completion_tokens = completion_tokens * 3 / 2, charge = charge * 3 / 2, operator_cost = operator_cost * 3 / 2 WHERE ${isCarols}`,
    "UPDATE keys SET spent = spent * 3 / 2 WHERE public_id = 'key_carol'",
  ];

  test("only the missing index tells of a request that is there twice and counted twice", async () => {
    tamper(storeFolder, ...doubleRequest);
    expect(await audit()).toEqual([
      "schema: index requests_public_id_unique is missing or not the program's own",
      "every requests.public_id: is not unique",
    ]);
  });

  test.each([
    [
      "no index that forbids it to charge twice",
      ["DROP INDEX ledger_ref_unique"],
      "every ledger.ref: is not unique",
    ],
    [
      "an index of that name that forbids nothing",
      ["DROP INDEX ledger_ref_unique", "CREATE INDEX ledger_ref_unique ON ledger (ref)"],
      "every ledger.ref: is not unique",
    ],
    [
      "an index that forbids it for some only",
      [
        "DROP INDEX ledger_ref_unique",
        "CREATE UNIQUE INDEX ledger_ref_unique ON ledger (ref) WHERE id < 9",
      ],
      "every ledger.ref: is not unique",
    ],
  ])("the audit finds %s", async (_, statements, problem) => {
    tamper(storeFolder, ...statements);
    expect(await audit()).toContain(problem);
  });
});
