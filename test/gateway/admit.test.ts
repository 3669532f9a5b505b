import { noUsage } from "../../src/contract/usage.ts";
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { boundsFor } from "../../src/gateway/admission/admit.ts";
import type { AdmittedScope, RequestScope } from "../../src/gateway/requestScope.ts";
import {
  openTestApp,
  type KeyOptions,
  type TestApp,
  type TestKey,
} from "../support/gateway/testApp.ts";
import { admitChat, scopeOf } from "../support/gateway/scopes.ts";
import { holdWrites } from "../support/store/gatewayDatabase.ts";
import { describeSqlite } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";

const TOKEN = 1000n;
const ANSWER = 100;
const COST = BigInt(ANSWER) * TOKEN;

let gateway: TestApp;
beforeAll(async () => {
  gateway = await openTestApp({
    providers: { local: "http://127.0.0.1:9/v1" },
    models: [
      {
        id: "small",
        routes: [{ provider: "local" }],
        settings: {
          free: true,
          rub_input_per_1m: 0,
          rub_cached_input_per_1m: 0,
          rub_cache_write_per_1m: 0,
          rub_output_per_1m: Number(TOKEN),
          max_output_tokens: ANSWER,
        },
      },
    ],
    sections: { billing: { hold_wait: "0s" } },
  });
});
afterEach(() => gateway.expectAuditPasses());
afterAll(() => gateway.close());

async function visitOf(key: TestKey): Promise<RequestScope> {
  return scopeOf(gateway.app, await gateway.store.keys.find(key.id));
}

async function end({ admitted }: AdmittedScope): Promise<void> {
  const tokens = { ...noUsage, promptTokens: 5, completionTokens: ANSWER };
  await admitted.meter.settle({ status: "done", usage: { tokens, estimated: false } });
}

/** Waits in this turn of the event loop, so that nothing but the writer's own thread goes on. */
function waitForCommit(requestId: string): void {
  const deadlineMs = performance.now() + 4000;
  using file = new Database(gateway.path, { readonly: true });
  const settled = file.query("SELECT 1 FROM requests WHERE public_id = ? AND status = 'done'");
  while (settled.get(requestId) === null) {
    if (performance.now() > deadlineMs) throw new Error("the charge was not committed");
    Bun.sleepSync(1);
  }
}

/**
 * A second request of the account asks in the moment that the end of the first is committed, or only asked
 * for. Resolves with the bound that it shrank to; undefined: it did not.
 */
async function secondMeanwhile(
  options: KeyOptions,
  endIs: "committed" | "asked for",
): Promise<number | undefined> {
  const key = await gateway.key(options);
  const visits = [await visitOf(key), await visitOf(key)] as const;
  const first = await admitChat(visits[0]);
  await first.admitted.meter.secured;
  const held = endIs === "asked for" ? await holdWrites(gateway.place) : undefined;
  // A block may be lowered at any time. The end of the request would wait for that batch.
  const { writer } = gateway.app.gateway;
  if (!held) await until("no write is in flight", () => writer.queued === 0);
  const firstEnd = end(first);
  if (endIs === "committed") waitForCommit(first.requestId);
  const second = admitChat(visits[1]);
  await held?.release();
  const scope = await second;
  await Promise.all([firstEnd, end(scope)]);
  return boundsFor(scope, scope.checked.models[0].config).outputTokensBound;
}

describeSqlite("a charge that is committed but whose hold is not released yet", () => {
  const enough = 2n * COST + COST / 2n;
  test.each<[string, KeyOptions]>([
    ["a balance", { balance: enough }],
    ["an overdraft", { balance: 0n, overdraft: enough }],
    ["a key's budget", { budget: enough }],
  ])("counts once against %s", async (_, options) => {
    expect(await secondMeanwhile(options, "committed")).toBeUndefined();
  });
});

describeSqlite("a hold whose charge is not committed yet", () => {
  const tooLittle = COST + COST / 2n;
  test.each<[string, KeyOptions]>([
    ["a balance", { balance: tooLittle }],
    ["a key's budget", { budget: tooLittle }],
  ])("still counts against %s, although its settlement is queued", async (_, options) => {
    expect(await secondMeanwhile(options, "asked for")).toBe(ANSWER / 2);
  });
});
