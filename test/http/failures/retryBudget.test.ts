import { describe, expect, test } from "bun:test";
import { candidatesOf } from "../../../src/gateway/catalog.ts";
import { UpstreamError } from "../../../src/providers/upstreamError.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["one", "two", "three", "slow"], ({ one, two, three, slow }) => ({
  providers: { one, two, three, slow },
  models: [
    {
      id: "small",
      routes: ["one", "two", "three"].map((provider, at) => ({ provider, priority: at + 1 })),
    },
    { id: "slow", routes: [{ provider: "slow" }] },
  ],
}));

const thirds = () => at.providers.three.requests.length;
const statuses = async (count: number): Promise<Record<number, number>> => {
  const seen: Record<number, number> = {};
  const replies = await Promise.all(
    Array.from({ length: count }, async () => chat(at.gateway, await at.gateway.key())),
  );
  for (const { status } of replies) seen[status] = (seen[status] ?? 0) + 1;
  return seen;
};

/** Resolves when a request begins to wait before its third attempt. */
function thirdWaits(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { retryBudget } = at.gateway.app.gateway;
  const take = retryBudget.take.bind(retryBudget);
  retryBudget.take = (inFlight) => {
    retryBudget.take = take;
    resolve();
    return take(inFlight);
  };
  return promise;
}

describe("third attempts", () => {
  test("are allowed for three requests at once when few are in flight, after a wait of 50 to 500 ms", async () => {
    // A 404 goes to the next route, and the circuit breaker does not count it.
    at.providers.one.answer = refusal(404);
    at.providers.two.answer = refusal(404);
    at.providers.three.answer = usual;
    const startedMs = performance.now();
    expect(await statuses(10)).toEqual({ 200: 3, 502: 7 });
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(50);
    expect(await statuses(3)).toEqual({ 200: 3 });
    expect(thirds()).toBe(6);
  });

  test("are a fifth of the requests in flight when there are many", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.slow.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const others = Array.from({ length: 40 }, async () =>
      chat(at.gateway, await at.gateway.key(), { model: "slow" }),
    );
    await until("the others are under way", () => at.providers.slow.requests.length === 40);
    at.providers.one.answer = refusal(404);
    at.providers.two.answer = refusal(404);
    at.providers.three.answer = usual;
    const seen = await statuses(20);
    // The twenty count too while they are at a provider, so a few more than eight may pass.
    expect(seen[200]).toBeGreaterThanOrEqual(8);
    expect(seen[200]).toBeLessThanOrEqual(12);
    go.resolve();
    for (const { status } of await Promise.all(others)) expect(status).toBe(200);
  });

  test("are not made after a shutdown during their wait", async () => {
    const { app } = at.gateway;
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = refusal(500);
    at.providers.three.answer = usual;
    const waiting = thirdWaits();
    const reply = chat(at.gateway, await at.gateway.key());
    await waiting;
    app.abortAll();
    try {
      expect((await reply).status).toBe(502);
      expect(thirds()).toBe(0);
    } finally {
      app.gateway.inFlight.isAborting = false;
    }
  });

  test("are not made at a route whose cooldown began during their wait", async () => {
    const { health, current } = at.gateway.app.gateway;
    const third = candidatesOf(current.catalog).find(({ provider }) => provider.id === "three");
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = refusal(500);
    const waiting = thirdWaits();
    const reply = chat(at.gateway, await at.gateway.key());
    await waiting;
    const route = third ?? expect.unreachable();
    const refused = new UpstreamError("account", "status 401");
    health.ended(route, health.begin(route, 1), refused, false);
    expect((await reply).status).toBe(502);
    expect(thirds()).toBe(0);
  });

  test("release their slots when they fail", async () => {
    for (const id of ["one", "two", "three"] as const) at.providers[id].answer = refusal(404);
    for (let round = 0; round < 5; round += 1) expect(await statuses(3)).toEqual({ 502: 3 });
    expect(thirds()).toBe(15);
  });
});

test("a first failover is always allowed, for any number of requests", async () => {
  at.providers.one.answer = refusal(404);
  at.providers.two.answer = usual;
  expect(await statuses(40)).toEqual({ 200: 40 });
});
