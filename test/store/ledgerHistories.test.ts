import { assert } from "fast-check";
import { describe, expect, test } from "bun:test";
import { openLedgerSetup } from "../support/histories/ledgerSetup.ts";
import { ledgerHistory } from "../support/histories/ledgerHistory.ts";
import { amount } from "../support/sample.ts";

const histories = amount(50, 150);
const timeoutMs = 120_000;

// `bun run prove ledger` tries others.
describe(`in ${histories} histories the store agrees with the model, whenever the writer commits`, () => {
  test.each([1, 2, 4])(
    "processes: %d",
    async (processes) => {
      const setup = await openLedgerSetup(processes);
      const problems: unknown[] = [];
      await assert(ledgerHistory(setup), {
        numRuns: histories,
        seed: 1,
        includeErrorInReport: true,
      }).catch((problem: unknown) => problems.push(problem));
      await setup.close().catch((problem: unknown) => problems.push(problem));
      expect(problems).toEqual([]);
    },
    timeoutMs,
  );
});
