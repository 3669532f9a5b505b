import { beforeEach, expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { growth } from "../../support/gateway/scrape.ts";

const costs = { input: 20_000, output: 100_000, cachedInput: 4000, cacheWrite: 26_000 };
const at = openBefore(["known", "unknown"], (urls) => ({
  providers: urls,
  models: [
    {
      id: "known",
      routes: [
        {
          provider: "known",
          responses: false,
          rub_cost_input_per_1m: costs.input,
          rub_cost_output_per_1m: costs.output,
          rub_cost_cached_input_per_1m: costs.cachedInput,
          rub_cost_cache_write_per_1m: costs.cacheWrite,
        },
      ],
    },
    { id: "unknown", routes: [{ provider: "unknown", responses: false }] },
  ],
  sections: { metrics: { listen: "127.0.0.1:0" } },
}));

const usage = (prompt: number, cached: number, written: number) =>
  answered({
    usage: {
      prompt_tokens: prompt,
      completion_tokens: 7,
      total_tokens: prompt + 7,
      prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    },
  });

/** By hand: cached tokens at the difference to input, minus what writes cost more. In nano-roubles. */
const saved = (price: typeof costs, cached: number, written: number): bigint =>
  BigInt(cached * (price.input - price.cachedInput) - written * (price.cacheWrite - price.input));

const cases = [
  ["reads and writes", 2000, 1500, 300],
  ["reads alone", 2000, 1024, 0],
  ["writes alone, which cost more", 2000, 0, 1900],
  ["neither", 2000, 0, 0],
] as const;

beforeEach(() => at.gateway.clock.advance(86_400_000 * 2));

for (const model of ["known", "unknown"] as const)
  test.each(cases)(
    `what a cache saves (costs ${model}): %s`,
    async (_, prompt, cached, written) => {
      const { gateway } = at;
      at.providers[model].answer = usage(prompt, cached, written);
      const key = await gateway.key();
      const count = 3;
      const { value } = await growth(gateway.metricsUrl, async () => {
        for (let round = 0; round < count; round += 1)
          expect((await chat(gateway, key, { model })).status).toBe(200);
      });
      const account = saved(prices, cached, written);
      const operator = model === "known" ? saved(costs, cached, written) : undefined;
      const [record] = await gateway.records(key, count);
      expect(record).toMatchObject({ cacheSaved: account, operatorSaved: operator ?? null });

      const figures = {
        promptTokens: count * prompt,
        cachedTokens: count * cached,
        cacheSaved: account * BigInt(count),
        operatorSaved: (operator ?? 0n) * BigInt(count),
      };
      const now = gateway.clock.epochMs();
      const overview = await gateway.store.reports.overview("24h", now);
      const { providers } = await gateway.store.reports.providers("24h", now);
      expect(overview.now.figures).toMatchObject(figures);
      expect(overview.top.models.find(({ name }) => name === model)?.figures).toMatchObject(
        figures,
      );
      expect(providers.find(({ provider }) => provider === model)?.figures).toMatchObject(figures);

      const of = { model, provider: model };
      expect(value("tollgate_tokens_total", { ...of, kind: "cached_input" }) ?? 0).toBe(
        count * cached,
      );
      for (const [payer, amount] of Object.entries({ account, operator })) {
        const [up, down] = ["saved", "lost"].map(
          (name) => value(`tollgate_cache_${name}_roubles_total`, { ...of, payer }) ?? 0,
        );
        expect((up ?? 0) - (down ?? 0)).toBeCloseTo((count * Number(amount ?? 0n)) / 1e9, 9);
        expect(Math.min(up ?? 0, down ?? 0)).toBe(0);
      }
    },
  );

test("the totals of days keep what caches saved", async () => {
  const { gateway } = at;
  const from = gateway.clock.epochMs();
  const report = await gateway.store.reports.overview("90d", from + 86_400_000);
  const sum = (price: typeof costs) =>
    cases.reduce((all, [, , cached, written]) => all + 3n * saved(price, cached, written), 0n);
  expect(report.now.figures).toMatchObject({
    cacheSaved: 2n * sum(prices),
    operatorSaved: sum(costs),
  });
});
