import { assert } from "fast-check";
import { afterAll, beforeAll, test } from "bun:test";
import { openLedgerSetup, type LedgerSetup } from "../support/histories/ledgerSetup.ts";
import { ledgerHistory } from "../support/histories/ledgerHistory.ts";
import { amount } from "../support/sample.ts";

const histories = amount(50, 150);
const timeoutMs = 120_000;

let setup: LedgerSetup;
beforeAll(async () => {
  setup = await openLedgerSetup();
});
afterAll(() => setup.close());

// `bun run prove ledger` tries others.
test(
  `in ${histories} histories the store agrees with the model, whenever the writer commits`,
  () => assert(ledgerHistory(setup), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);
