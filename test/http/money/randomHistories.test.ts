import { assert } from "fast-check";
import { afterAll, afterEach, beforeAll, test } from "bun:test";
import { historyConfig } from "../../support/histories/historyPrices.ts";
import { httpHistory } from "../../support/histories/httpHistory.ts";
import { answerOnDemand } from "../../support/histories/moneyProvider.ts";
import { startProvider, type ScriptedProvider } from "../../support/provider/scriptedProvider.ts";
import { openTestApp, type TestApp } from "../../support/gateway/testApp.ts";

const histories = 300;
const timeoutMs = 120_000;

let provider: ScriptedProvider;
let gateway: TestApp;
beforeAll(async () => {
  provider = startProvider();
  gateway = await openTestApp(historyConfig(`http://127.0.0.1:${provider.port}/v1`));
  gateway.auditor.listenTo(provider);
});
afterEach(() => gateway.expectAuditPasses());
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

// `bun scripts/moneyModel.ts http` tries others.
test(
  `in ${histories} histories of concurrent requests, clients and records agree with the model`,
  () => {
    const history = httpHistory(gateway, answerOnDemand(provider));
    return assert(history, { numRuns: histories, seed: 1, includeErrorInReport: true });
  },
  timeoutMs,
);
