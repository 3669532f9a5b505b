import { assert } from "fast-check";
import { afterAll, beforeAll, test } from "bun:test";
import { openLedgerBench, type LedgerBench } from "../support/histories/ledgerBench.ts";
import { ledgerHistory } from "../support/histories/ledgerHistory.ts";

const histories = 150;
const timeoutMs = 120_000;

let bench: LedgerBench;
beforeAll(async () => {
  bench = await openLedgerBench();
});
afterAll(() => bench.close());

// `bun scripts/moneyModel.ts ledger` tries others.
test(
  `in ${histories} histories the store agrees with the model, whenever the writer commits`,
  () => assert(ledgerHistory(bench), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);
