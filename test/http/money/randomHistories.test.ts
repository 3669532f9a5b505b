import { assert } from "fast-check";
import { test } from "bun:test";
import { historyConfig } from "../../support/histories/historyPrices.ts";
import { httpHistory } from "../../support/histories/httpHistory.ts";
import { answerOnDemand } from "../../support/histories/moneyProvider.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { testedStore } from "../../support/testedEngines.ts";
import { amount } from "../../support/sample.ts";

/** A server needs some turns of the writer for each step. */
const histories = testedStore === "sqlite" ? amount(60, 200) : amount(10, 50);
const timeoutMs = 300_000;

const at = openBefore(["local"], ({ local }) => historyConfig(local));

// `bun run prove http` tries others.
test(
  `in ${histories} histories of concurrent requests, clients and records agree with the model`,
  () => {
    const history = httpHistory(at.gateway, answerOnDemand(at.providers.local));
    return assert(history, { numRuns: histories, seed: 1, includeErrorInReport: true });
  },
  timeoutMs,
);
