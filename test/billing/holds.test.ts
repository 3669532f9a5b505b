import { assert } from "fast-check";
import { test } from "bun:test";
import { holdsHistory } from "../support/holdsHistory.ts";

const histories = 20_000;
const timeoutMs = 60_000;

// `bun scripts/moneyModel.ts holds` tries others.
test(
  `in ${histories} histories no rouble is promised twice, and none that is free is kept back`,
  () => assert(holdsHistory(), { numRuns: histories, seed: 1, includeErrorInReport: true }),
  timeoutMs,
);
