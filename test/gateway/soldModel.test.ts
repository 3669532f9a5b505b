import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { RequestMeter } from "../../src/billing/meter.ts";
import { noExtras, type PromptExtent } from "../../src/billing/cost.ts";
import type { Price } from "../../src/config/schema.ts";
import { freePrice, onePrice } from "../support/store/recordedRequest.ts";
import { noUsage } from "../../src/contract/usage.ts";
import type { Admitted } from "../../src/gateway/requestScope.ts";
import { openTestApp, type TestApp, type TestKey } from "../support/gateway/testApp.ts";
import { admitChat, scopeOf } from "../support/gateway/scopes.ts";
import { scrape } from "../support/gateway/scrape.ts";

const dear = {
  rub_input_per_1m: 7,
  rub_cached_input_per_1m: 1,
  rub_cache_write_per_1m: 8,
  rub_cache_write_1h_per_1m: 20,
  rub_output_per_1m: 30,
  rub_web_search_per_1k: 3,
  max_output_tokens: 100,
  context_tokens: 1000,
};
/** Of the model that answers instead. */
const other: Price = {
  ...freePrice,
  input: 2n,
  cachedInput: 1n,
  cacheWrite: 3n,
  cacheWrite1h: 4n,
  output: 5n,
  webSearch: 600n,
};

let gateway: TestApp;
beforeAll(async () => {
  const routes = [{ provider: "local" }];
  gateway = await openTestApp({
    providers: { local: "http://127.0.0.1:9/v1" },
    models: [{ id: "small", routes, settings: dear }],
    sections: { metrics: { listen: "127.0.0.1:0" } },
  });
});
afterEach(() => gateway.expectAuditPasses());
afterAll(() => gateway.close());

async function ask(key: TestKey, prompt: Partial<PromptExtent> = {}): Promise<Admitted> {
  const { app, store } = gateway;
  const extent = { bodyBytes: 100, messageCount: 1, unbounded: true };
  const { admitted } = await admitChat(scopeOf(app, await store.keys.find(key.id)), {
    prompt: { ...extent, ...noExtras, ...prompt },
  });
  await admitted.meter.secured;
  return admitted;
}

/** 100 prompt tokens: 70 plain, 10 read from the cache, 8 written for five minutes, 12 for an hour. */
const tokens = {
  ...noUsage,
  promptTokens: 100,
  cachedTokens: 10,
  cacheWriteTokens: 20,
  cacheWrite1hTokens: 12,
  completionTokens: 9,
  webSearches: 2,
};
const charge = 70n * 2n + 10n * 1n + 8n * 3n + 12n * 4n + 9n * 5n + 2n * 600n;

describe("a request that another model answers", () => {
  test.each([
    ["with a row before its end", true],
    ["without one", false],
  ])("%s is recorded, charged and counted as that model", async (_, hasRow) => {
    const key = await gateway.key();
    const { meter } = await ask(key, { asked: ["cacheWrite1hTokens"], most: { webSearches: 2 } });
    if (hasRow) {
      (meter as RequestMeter).writeRow();
      await gateway.app.gateway.writer.write({ kind: "reserve" });
      expect(await rowsOf(key)).toMatchObject([
        { status: "running", model: "small", price: { input: 7n } },
      ]);
    }
    const sold = { model: "spare", prices: onePrice(other), costs: undefined };
    const usage = { tokens, estimated: false };
    const receipt = await meter.settle({ status: "done", usage, provider: "local", sold });
    expect(receipt).toMatchObject({ model: "spare", charge });
    expect(await rowsOf(key)).toMatchObject([
      {
        status: "done",
        model: "spare",
        ...tokens,
        charge,
        price: other,
      },
    ]);
    const sums = await gateway.store.usage.by("model", { account: key.account });
    expect(sums).toMatchObject([{ group: "spare", requests: 1, ...tokens, cost: charge }]);
  });

  test("that fails is recorded as the model that was asked for", async () => {
    const key = await gateway.key();
    const { meter } = await ask(key);
    expect(await meter.settle({ status: "failed" })).toMatchObject({ model: "small", charge: 0n });
    expect(await rowsOf(key)).toMatchObject([{ model: "small", price: { input: 7n } }]);
  });

  test("is measured as that model", async () => {
    const { meter } = await ask(await gateway.key());
    const sold = { model: "measured", prices: onePrice(other), costs: undefined };
    await meter.settle({ status: "done", usage: { tokens, estimated: false }, sold });
    const measured = await scrape(gateway.metricsUrl);
    const kinds = { input: 70, cached_input: 10, cache_write: 8, cache_write_1h: 12, output: 9 };
    for (const [kind, count] of Object.entries(kinds))
      expect(
        measured.value("tollgate_tokens_total", { model: "measured", provider: "", kind }),
      ).toBe(count);
    expect(measured.value("tollgate_web_searches_total", { model: "measured" })).toBe(2);
  });
});

test.each<[string, Partial<PromptExtent>, bigint]>([
  ["without extras at the usual prices", {}, 1000n * 8n + 100n * 30n],
  ["with an hour in the cache", { asked: ["cacheWrite1hTokens"] }, 1000n * 20n + 100n * 30n],
  ["with searches", { most: { webSearches: 5 } }, 1000n * 8n + 100n * 30n + 5n * 3000n],
])("a prompt %s is held at its most", async (_, prompt, hold) => {
  const key = await gateway.key();
  const { meter, tokenLimits } = await ask(key, prompt);
  expect(tokenLimits).toMatchObject({
    promptTokens: 1000,
    asked: prompt.asked ?? [],
    completionTokens: 100,
    most: prompt.most ?? {},
  });
  await meter.settle({ status: "done", usage: { tokens: noUsage, estimated: false } });
  expect(await rowsOf(key)).toMatchObject([{ hold }]);
});

async function rowsOf({ account }: TestKey) {
  return (await gateway.store.requests.list({ account }, { limit: 9 })).rows;
}
