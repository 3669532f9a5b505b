import { describe, expect, test } from "bun:test";
import { answered, usual } from "../../support/provider/chatAnswers.ts";
import {
  chat,
  expectRefusal,
  noProvider,
  tooOften,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { raw, refusal, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const ids = ["one", "two", "three", "four"] as const;
const at = openBefore(ids, (urls) => ({
  providers: { ...urls, narrow: { base_url: urls.one, max_concurrent: 1 } },
  models: [
    {
      id: "small",
      routes: [
        { provider: "two", priority: 2 },
        { provider: "one", priority: 1 },
      ],
    },
    { id: "wide", routes: ids.map((provider) => ({ provider })) },
    { id: "narrow", routes: [{ provider: "narrow" }] },
    { id: "relieved", routes: [{ provider: "narrow" }, { provider: "two" }] },
    {
      id: "even",
      routes: [
        { provider: "one", priority: 1, weight: 1000 },
        { provider: "two", priority: 1, weight: 1 },
      ],
    },
  ],
}));

const called = () => ids.map((id) => at.providers[id].requests.length);

async function ask(model = "small"): Promise<Reply> {
  at.gateway.clock.advance(600_000);
  return chat(at.gateway, await at.gateway.key(), { model });
}

/** The answer is a 502 with this retry-after. */
function expectRetryAfter(reply: Reply, seconds: string): void {
  const { headers } = reply;
  expect(headers.get("retry-after")).toBe(seconds);
  headers.delete("retry-after");
  expectRefusal({ ...reply, headers }, noProvider);
}

function limited(retryAfter?: string): ProviderAnswer {
  return refusal(429, "slow down", retryAfter === undefined ? {} : { "retry-after": retryAfter });
}

describe("the routes of a model", () => {
  test("are tried by priority, the lowest number first", async () => {
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = usual;
    const reply = await ask();
    expect(reply.status).toBe(200);
    expect(
      (await at.gateway.store.requests.attempts(reply.id)).map(({ provider }) => provider),
    ).toEqual(["one", "two"]);
  });

  test("of one priority are chosen by weight, and each is tried", async () => {
    at.providers.one.answer = usual;
    at.providers.two.answer = usual;
    for (let round = 0; round < 30; round += 1) expect((await ask("even")).status).toBe(200);
    expect(at.providers.one.requests.length).toBeGreaterThan(20);
    at.providers.one.answer = refusal(500);
    expect((await ask("even")).status).toBe(200);
  });

  test("are tried within seconds when the body of an error never ends", async () => {
    at.providers.one.answer = raw("HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\nno");
    at.providers.two.answer = usual;
    const startedMs = performance.now();
    const reply = await ask();
    expect(performance.now() - startedMs).toBeWithin(4500, 20_000);
    const attempts = await at.gateway.store.requests.attempts(reply.id);
    expect(attempts).toMatchObject([{ outcome: "status 500" }, { outcome: "ok" }]);
  });

  test("are tried three times at most, each route once", async () => {
    for (const id of ids) at.providers[id].answer = refusal(500);
    expectRefusal(await ask("wide"), noProvider);
    expect(called()).toEqual([1, 1, 1, 0]);
  });

  test.each([false, true])(
    "are not tried after a shutdown aborted the request (stream: %p)",
    async (stream) => {
      const { app } = at.gateway;
      at.providers.one.answer = () => app.abortAll();
      try {
        const reply = await chat(at.gateway, await at.gateway.key(), { stream });
        expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
        expect(called()).toEqual([1, 0, 0, 0]);
      } finally {
        app.gateway.inFlight.isAborting = false;
      }
    },
  );

  test.each([false, true])(
    "are not tried when a shutdown comes in the wait before the third attempt (stream: %p)",
    async (stream) => {
      const { app } = at.gateway;
      const { retryBudget } = app.gateway;
      const take = retryBudget.take.bind(retryBudget);
      retryBudget.take = (exchangesInFlight) => {
        app.abortAll();
        return take(exchangesInFlight);
      };
      for (const id of ids) at.providers[id].answer = refusal(500);
      try {
        const reply = await chat(at.gateway, await at.gateway.key(), { model: "wide", stream });
        expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
        expect(called()).toEqual([1, 1, 0, 0]);
      } finally {
        retryBudget.take = take;
        app.gateway.inFlight.isAborting = false;
      }
    },
  );

  test("cause one charge when only the last of them answers", async () => {
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = refusal(503);
    at.providers.three.answer = answered({ model: "x" });
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { model: "wide" });
    expect(reply.status).toBe(200);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { provider: "three", attemptCount: 3, status: "done" },
    ]);
    const { id: accountId = 0 } = (await at.gateway.store.accounts.find(key.account)) ?? {};
    expect((await at.gateway.store.ledger.history(accountId, 10)).map(({ kind }) => kind)).toEqual([
      "charge",
      "credit",
    ]);
  });
});

describe("a rate limit of the provider", () => {
  test("goes to the next route, and the route is skipped for the given time", async () => {
    at.providers.one.answer = limited("7");
    at.providers.two.answer = usual;
    expect((await ask()).status).toBe(200);
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(called()).toEqual([1, 2, 0, 0]);
    at.gateway.clock.advance(6500);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(called()).toEqual([1, 3, 0, 0]);
    at.gateway.clock.advance(600);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(called()).toEqual([2, 4, 0, 0]);
  });

  test("lasts as long as the longest answer demands", async () => {
    const short = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      const isShort = request.body.includes("short");
      if (isShort) await short.promise;
      await limited(isShort ? "1" : "40")(peer, request);
    };
    at.providers.two.answer = usual;
    const key = await at.gateway.key();
    const shortly = chat(at.gateway, key, { user: "short" });
    await at.providers.one.request(0);
    expect((await chat(at.gateway, key)).status).toBe(200);
    short.resolve();
    expect((await shortly).status).toBe(200);
    at.gateway.clock.advance(2000);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(at.providers.one.requests).toHaveLength(2);
  });

  test("does not shorten the cooldown of a refused account of the provider", async () => {
    at.providers.one.answer = limited("7");
    at.providers.two.answer = usual;
    expect((await ask()).status).toBe(200);
    at.providers.one.answer = refusal(402);
    at.providers.two.answer = refusal(500);
    at.providers.three.answer = usual;
    expect((await chat(at.gateway, await at.gateway.key(), { model: "wide" })).status).toBe(200);
    at.gateway.clock.advance(8000);
    at.providers.two.answer = usual;
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect(at.providers.one.requests).toHaveLength(2);
  });

  test("of all routes is a 502 with the shortest retry-after, and then no provider is called", async () => {
    at.providers.one.answer = limited("40");
    at.providers.two.answer = limited("7");
    expectRetryAfter(await ask(), "7");
    expectRetryAfter(await chat(at.gateway, await at.gateway.key()), "7");
    expect(called()).toEqual([1, 1, 0, 0]);
  });

  test.each([
    [undefined, "1"],
    ["0", "1"],
    ["59", "59"],
    ["86400", "60"],
    ["banana", "1"],
    ["-1", "1"],
    ["1.5", "1"],
    ["Fri, 31 Dec 2049 23:59:59 GMT", "1"],
  ])("with retry-after %j means a wait of %s s", async (header, seconds) => {
    at.providers.one.answer = limited(header);
    at.providers.two.answer = limited("60");
    expectRetryAfter(await ask(), seconds);
  });

  test.each([
    [{ "retry-after-ms": "6500" }, "7"],
    [{ "retry-after-ms": "6500.25" }, "7"],
    [{ "retry-after-ms": "86400000" }, "60"],
    [{ "retry-after-ms": "0" }, "1"],
    [{ "retry-after-ms": "soon" }, "1"],
    [{ "retry-after-ms": "6500", "retry-after": "9" }, "9"],
  ])("with %j, Azure's form, means a wait of %s s", async (headers, seconds) => {
    at.providers.one.answer = refusal(429, "slow down", headers);
    at.providers.two.answer = limited("60");
    expectRetryAfter(await ask(), seconds);
  });

  test("is also a 402 with a time: the route has a cooldown, and the account is not at fault", async () => {
    at.providers.one.answer = refusal(402, "In-flight budget exhausted", { "retry-after": "2" });
    at.providers.two.answer = usual;
    const before = at.gateway.log.length;
    expect((await ask()).status).toBe(200);
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect(called()).toEqual([1, 2, 0, 0]);
    at.gateway.clock.advance(2000);
    at.providers.one.answer = usual;
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect(called()).toEqual([2, 2, 0, 0]);
    const levels = at.gateway.log.slice(before).map(({ level }) => level);
    expect(levels).not.toContain("error");
  });

  test.each([
    ["7", false],
    ["7", true],
    [undefined, false],
    [undefined, true],
  ])(
    "with another failure is a 502 with retry-after 1 (retry-after: %j, stream: %j)",
    async (header, stream) => {
      at.providers.one.answer = limited(header);
      at.providers.two.answer = refusal(500);
      at.gateway.clock.advance(600_000);
      expectRetryAfter(await chat(at.gateway, await at.gateway.key(), { stream }), "1");
    },
  );
});

describe("a provider with max_concurrent", () => {
  /** Occupies the provider's one slot during `work`. */
  async function withSlotTaken<Result>(work: () => Promise<Result>): Promise<Result> {
    const go = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const first = ask("narrow");
    await at.providers.one.request(0);
    try {
      return await work();
    } finally {
      go.resolve();
      expect((await first).status).toBe(200);
    }
  }

  test("without a free slot is a 429 when there is no other route", async () => {
    await withSlotTaken(async () => {
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { model: "narrow" });
      expectRefusal(reply, tooOften);
      expect(reply.headers.get("retry-after")).toBe("1");
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    });
    expect(called()).toEqual([1, 0, 0, 0]);
    expect((await ask("narrow")).status).toBe(200);
  });

  test("without a free slot goes to the next route", async () => {
    at.providers.two.answer = usual;
    await withSlotTaken(async () => {
      const reply = await chat(at.gateway, await at.gateway.key(), { model: "relieved" });
      expect(reply.status).toBe(200);
    });
    expect(called()).toEqual([1, 1, 0, 0]);
  });

  test("without a free slot is a 502, not a 429, when the other route has failed", async () => {
    at.providers.two.answer = refusal(500);
    await withSlotTaken(async () => {
      expectRefusal(
        await chat(at.gateway, await at.gateway.key(), { model: "relieved" }),
        noProvider,
      );
    });
  });
});
