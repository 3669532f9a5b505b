import { expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { growth, scrape } from "../../support/gateway/scrape.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

const ids = ["one", "two", "three"] as const;
const at = openBefore(ids, (urls) => ({
  providers: urls,
  models: [{ id: "small", routes: ids.map((provider, at) => ({ provider, priority: at + 1 })) }],
  sections: { metrics: { listen: "127.0.0.1:0" } },
}));

const ask = async () => chat(at.gateway, await at.gateway.key());

test("third attempts without a retry slot are counted", async () => {
  at.providers.one.answer = refusal(429);
  at.providers.two.answer = refusal(429);
  at.providers.three.answer = usual;
  const { value } = await growth(at.gateway.metricsUrl, async () => {
    const replies = await Promise.all(Array.from({ length: 10 }, ask));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(3);
  });
  expect(value("tollgate_retry_budget_refusals_total")).toBe(7);
});

test("a third route that is skipped takes no retry slot", async () => {
  at.providers.one.answer = refusal(429);
  at.providers.two.answer = refusal(429);
  at.providers.three.answer = refusal(429, "later", { "retry-after": "60" });
  expect((await ask()).status).toBe(502);
  const { value } = await growth(at.gateway.metricsUrl, async () => {
    await Promise.all(Array.from({ length: 10 }, ask));
  });
  expect(value("tollgate_retry_budget_refusals_total")).toBe(0);
  expect(at.providers.three.requests).toHaveLength(1);
});

test("shows the breaker of each tried route: open after five failures, closed for the next", async () => {
  at.providers.one.answer = refusal(500);
  at.providers.two.answer = usual;
  for (let count = 0; count < 5; count += 1) expect((await ask()).status).toBe(200);
  const found = await scrape(at.gateway.metricsUrl);
  const state = (provider: string) =>
    found.value("tollgate_breaker_state", { provider, model: "small" });
  expect([state("one"), state("two")]).toEqual([2, 0]);
  expect(found.all("tollgate_breaker_state").length).toBeGreaterThan(1);
});
