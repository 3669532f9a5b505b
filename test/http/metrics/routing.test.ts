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
  sections: { metrics: { listen: "127.0.0.1:0" }, log: { level: "debug" } },
}));

const ask = async () => chat(at.gateway, await at.gateway.key());

test("third attempts without a retry slot are counted", async () => {
  at.providers.one.answer = refusal(404);
  const allAreThere = Promise.withResolvers<void>();
  at.providers.two.answer = async (peer, request) => {
    if (at.providers.two.requests.length === 10) allAreThere.resolve();
    await allAreThere.promise;
    await refusal(404)(peer, request);
  };
  at.providers.three.answer = usual;
  const { value } = await growth(at.gateway.metricsUrl, async () => {
    const replies = await Promise.all(Array.from({ length: 10 }, ask));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(3);
  });
  expect(value("tollgate_retry_budget_refusals_total")).toBe(7);
});

test("a third route that is skipped takes no retry slot", async () => {
  at.providers.one.answer = refusal(404);
  at.providers.two.answer = refusal(404);
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

test("the gateway's own requests are counted, and logged at debug level", async () => {
  at.providers.one.answer = refusal(500);
  at.providers.one.probeAnswer = usual;
  at.providers.two.answer = usual;
  const key = await at.gateway.key();
  const { value } = await growth(at.gateway.metricsUrl, async () => {
    for (let count = 0; count < 3; count += 1)
      expect((await chat(at.gateway, key)).status).toBe(200);
    await at.gateway.expectAuditPasses();
  });
  expect(value("tollgate_probes_total", { provider: "one", model: "small", outcome: "ok" })).toBe(
    1,
  );
  expect(at.gateway.log.filter(({ msg }) => msg === "the gateway asked a route itself")).toEqual([
    expect.objectContaining({ level: "debug", provider: "one", model: "small", outcome: "ok" }),
  ]);
});
