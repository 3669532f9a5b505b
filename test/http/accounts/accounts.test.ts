import { beforeEach, describe, expect, test } from "bun:test";
import { chat, expectRefusal, noProvider, tooOften } from "../../support/gateway/chatCalls.ts";
import { breakerStates } from "../../support/gateway/breakers.ts";
import type { GatewayConfig, Section } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { several } from "../../support/several.ts";
import { held, refusal, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const names = ["a", "b", "c", "d", "e"] as const;
type Name = (typeof names)[number];

/** Five accounts at the server `one`, and another provider behind them. */
function configOf(urls: { one: string; two: string }, accounts: readonly Section[]): GatewayConfig {
  return {
    providers: {
      one: { base_url: urls.one, accounts },
      two: urls.two,
      gone: {
        base_url: "http://127.0.0.1:1/v1",
        accounts: several(10, (at) => ({ id: `n${at}` })),
      },
    },
    models: [
      { id: "small", routes: [{ provider: "one" }] },
      { id: "safe", routes: [{ provider: "one" }, { provider: "two" }] },
      { id: "gone", routes: [{ provider: "gone" }, { provider: "two" }] },
      { id: "single", routes: [{ provider: "one/b" }] },
    ],
  };
}
const account = (id: Name, more: Section = {}): Section => ({ id, api_key: `sk-${id}`, ...more });
const five = names.map((id) => account(id));
const at = openBefore(["one", "two"], (urls) => configOf(urls, five));

function urls(): { one: string; two: string } {
  const { one, two } = at.providers;
  return { one: `http://127.0.0.1:${one.port}/v1`, two: `http://127.0.0.1:${two.port}/v1` };
}

/** What the server answers to each account; the others get the usual answer. */
let answers: Partial<Record<Name, ProviderAnswer>> = {};
const accountOf = (headers: readonly (readonly [string, string])[]): Name =>
  (headers.find(([name]) => name === "authorization")?.[1] ?? "").slice(-1) as Name;
const asked = () => at.providers.one.requests.map(({ headers }) => accountOf(headers));
const countOf = (name: Name) => asked().filter((one) => one === name).length;

beforeEach(() => {
  answers = {};
  at.providers.two.answer = usual;
  at.providers.one.answer = (peer, request) =>
    (answers[accountOf(request.headers)] ?? usual)(peer, request);
});

const ask = async (model = "small") => chat(at.gateway, await at.gateway.key(), { model });
const answerAll = (answer: ProviderAnswer) => {
  for (const name of names) answers[name] = answer;
};

describe("a model whose provider has five accounts", () => {
  test("is served by each of them, and the record names it", async () => {
    const seen = new Set<string | null>();
    for (let round = 0; round < 60; round += 1) {
      const key = await at.gateway.key();
      expect((await chat(at.gateway, key)).status).toBe(200);
      const [record] = await at.gateway.records(key, 1);
      expect(record?.provider).toBe(`one/${asked().at(-1)}`);
      seen.add(record?.provider ?? null);
    }
    expect(seen.size).toBe(5);
  });

  test.each<[string, ProviderAnswer]>([
    ["a rate limit with a time", refusal(429, "slow down", { "retry-after": "30" })],
    ["a rate limit without a time", refusal(429)],
    ["a refused key", refusal(401)],
    ["an empty account", refusal(402)],
  ])("answers each request while three of them have %s", async (_, answer) => {
    for (const name of ["b", "c", "d"] as const) answers[name] = answer;
    const { retryBudget } = at.gateway.app.gateway;
    const slots = Array.from({ length: 3 }, () => retryBudget.take(0));
    for (let round = 0; round < 40; round += 1) expect((await ask()).status).toBe(200);
    for (const release of slots) release?.();
    expect(countOf("a") + countOf("e")).toBe(40);
    for (const name of ["b", "c", "d"] as const) expect(countOf(name)).toBeLessThanOrEqual(6);
  });

  test("leaves alone what refused its key, and nothing else", async () => {
    answers.c = refusal(401);
    while (countOf("c") === 0) await ask();
    for (let round = 0; round < 30; round += 1) expect((await ask()).status).toBe(200);
    expect(countOf("c")).toBe(1);
    for (const name of ["a", "b", "d", "e"] as const) expect(countOf(name)).toBeGreaterThan(0);
    expect(at.gateway.app.notices.counts().provider_refused).toBe(1);
    expect(at.gateway.log.findLast(({ event }) => event === "provider_refused")).toMatchObject({
      provider: "one/c",
    });
  });

  test("is unavailable once all refuse, with the time of the first that returns", async () => {
    answerAll(refusal(429, "slow down", { "retry-after": "30" }));
    answers.d = refusal(429, "slow down", { "retry-after": "7" });
    for (let round = 0; round < 3; round += 1) {
      const reply = await ask();
      expect(reply.headers.get("retry-after")).toBe("7");
      reply.headers.delete("retry-after");
      expectRefusal(reply, noProvider);
    }
    expect(asked().toSorted()).toEqual([...names]);
  });

  test("asks three of them at most where the server fails, after all other routes", async () => {
    answerAll(refusal(500));
    expectRefusal(await ask(), noProvider);
    expect(asked()).toHaveLength(3);
    const reply = await ask("safe");
    expect(reply.status).toBe(200);
    expect(asked()).toHaveLength(4);
    expect(at.providers.two.requests).toHaveLength(1);
  });

  test("has breakers of its own for each of them", async () => {
    answers.a = refusal(500);
    for (let round = 0; round < 60; round += 1) expect((await ask()).status).toBe(200);
    expect(countOf("a")).toBe(5);
    const open = breakerStates(at.gateway).filter(({ state }) => state !== "closed");
    expect(open).toEqual([{ provider: "one/a", model: "small", state: "open" }]);
  });
});

test("many accounts at a server that is gone cost a request one failed connection", async () => {
  const ids: string[] = [];
  for (let round = 0; round < 30; round += 1) {
    const reply = await ask("gone");
    expect(reply.status).toBe(200);
    ids.push(reply.id);
  }
  const attempts = await Promise.all(ids.map((id) => at.gateway.store.requests.attempts(id)));
  const failed = attempts.map((of) => of.filter(({ outcome }) => outcome === "refused").length);
  expect(Math.max(...failed)).toBe(1);
  // Five until the server is known to be gone, and one more for each other account.
  expect(failed.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(5 + 9);
});

test("a route may name one account", async () => {
  for (let round = 0; round < 5; round += 1) expect((await ask("single")).status).toBe(200);
  expect(asked()).toEqual(["b", "b", "b", "b", "b"]);
});

test("a stored response is continued by the account that has it", async () => {
  const key = await at.gateway.key();
  let count = 0;
  at.providers.one.answer = (peer, request) => responds(`resp_${(count += 1)}`)(peer, request);
  expect((await respond(at.gateway, key)).status).toBe(200);
  const owner = asked();
  for (let round = 1; round < 12; round += 1)
    await respond(at.gateway, key, { previous_response_id: `resp_${round}` });
  expect(new Set(asked())).toEqual(new Set(owner));
  expect(asked()).toHaveLength(12);
});

describe("the limits of accounts", () => {
  const withLimits = (limits: Section, ...accounts: readonly Section[]): Promise<void> => {
    const { providers, ...config } = configOf(urls(), accounts);
    const one = { base_url: urls().one, accounts, ...limits };
    return at.gateway.reload({ ...config, providers: { ...providers, one } });
  };

  test("requests_per_minute: an account above it is passed over, then the client waits", async () => {
    await withLimits({ requests_per_minute: 2 }, account("a"), account("b"), {
      ...account("c"),
      requests_per_minute: 6,
    });
    for (let round = 0; round < 10; round += 1) expect((await ask()).status).toBe(200);
    expect([countOf("a"), countOf("b"), countOf("c")]).toEqual([2, 2, 6]);
    const reply = await ask();
    expect(reply.headers.get("retry-after")).toBe("10");
    expectRefusal(reply, tooOften);
    await at.gateway.advance(10_000);
    expect((await ask()).status).toBe(200);
    expect(countOf("c")).toBe(7);
    // A reload is no new minute.
    await withLimits({ requests_per_minute: 2, idle_timeout: "99s" }, account("a"), account("b"));
    expect((await ask()).status).toBe(429);
    await at.gateway.advance(60_000);
  });

  test("max_concurrent: that of the provider is that of each account without its own", async () => {
    await withLimits(
      { max_concurrent: 1 },
      account("a"),
      account("b"),
      account("c", { max_concurrent: 2 }),
    );
    const usuals = held(usual);
    answerAll(usuals.answer);
    const open = Array.from({ length: 4 }, () => ask());
    await at.providers.one.request(3);
    expect(asked().toSorted()).toEqual(["a", "b", "c", "c"]);
    expect((await ask()).status).toBe(429);
    usuals.go();
    for (const { status } of await Promise.all(open)) expect(status).toBe(200);
  });

  test("a reload keeps an account that did not change, with its cooldown and connections", async () => {
    await withLimits({}, account("a"), account("b"));
    answers.a = refusal(429, "slow down", { "retry-after": "60" });
    while (countOf("a") === 0) await ask();
    const before = at.providers.one.openCount;
    await withLimits({}, account("a"), account("b", { weight: 5 }), account("c"));
    for (let round = 0; round < 20; round += 1) expect((await ask()).status).toBe(200);
    expect(countOf("a")).toBe(1);
    expect(countOf("c")).toBeGreaterThan(0);
    expect(at.providers.one.openCount).toBeLessThanOrEqual(before + 1);
    await withLimits({}, account("a", { weight: 2 }), account("b", { weight: 5 }));
    while (countOf("a") === 1) expect((await ask()).status).toBe(200);
  });
});
