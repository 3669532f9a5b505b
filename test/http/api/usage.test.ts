import { describe, expect, test } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../../src/lib/clock.ts";
import { helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { call, chat, expectRefusal, openChat } from "../../support/gateway/chatCalls.ts";
import { costlyModels } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, raw, refusal, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";

const at = openBefore(["local"], costlyModels("small", "large"));
const provider = at.providers.local;

/** After a turn of this length the pause is 400 ms. */
const TURN_MS = 100;

/** Moves the clock to noon of the next day, so that a test does not cross midnight. */
function nextNoon(): void {
  const now = at.gateway.clock.epochMs();
  at.gateway.clock.advance(DAY_MS - (now % DAY_MS) + DAY_MS / 2);
}

/** The date this many days before the clock's date. */
function daysBack(count: number): string {
  const atMs = at.gateway.clock.epochMs() - count * DAY_MS;
  return new Date(atMs).toISOString().slice(0, "2026-01-01".length);
}

function ask(key: TestKey, query = "") {
  return call(at.gateway, key, { path: `/v1/usage${query}` });
}

async function usage(key: TestKey, query = ""): Promise<unknown> {
  const { status, body } = await ask(key, query);
  expect(status).toBe(200);
  const { object, data, ...others } = body as { object: string; data: unknown };
  expect([object, others]).toEqual(["list", {}]);
  return data;
}

const once = {
  requests: 1,
  prompt_tokens: 20,
  cached_tokens: 5,
  cache_write_tokens: 3,
  cache_write_1h_tokens: 0,
  completion_tokens: 7,
  web_searches: 0,
  cost_rub: "0.0018025",
  failed: 0,
  refunded_rub: "0",
};
const twice = {
  requests: 2,
  prompt_tokens: 40,
  cached_tokens: 10,
  cache_write_tokens: 6,
  cache_write_1h_tokens: 0,
  completion_tokens: 14,
  web_searches: 0,
  cost_rub: "0.003605",
  failed: 0,
  refunded_rub: "0",
};

describe("GET /v1/usage", () => {
  test("reports by day or by model, all keys of the account and no other account", async () => {
    provider.answer = usual;
    nextNoon();
    const key = await at.gateway.key();
    const second = await at.gateway.key({ account: key.account, balance: 0n });
    const other = await at.gateway.key();
    await chat(at.gateway, key);
    await chat(at.gateway, second, { stream: true });
    await chat(at.gateway, other, { model: "large" });
    nextNoon();
    await chat(at.gateway, key, { model: "large" });
    provider.answer = refusal(500);
    await chat(at.gateway, second, { model: "large" });
    const days = [
      { day: daysBack(1), ...twice },
      { day: daysBack(0), ...once, requests: 2, failed: 1 },
    ];
    const models = [
      { model: "large", ...once, requests: 2, failed: 1 },
      { model: "small", ...twice },
    ];
    for (const either of [key, second]) {
      expect(await usage(either)).toEqual(days);
      expect(await usage(either, "?by=day&since=1d")).toEqual(days);
      expect(await usage(either, "?by=model")).toEqual(models);
      expect(await usage(either, "?by=model&since=0d")).toEqual([models[0]]);
      expect(await usage(either, "?by=model&until=0d")).toEqual([models[1]]);
      expect(await usage(either, `?since=${daysBack(1)}&until=${daysBack(0)}`)).toEqual([days[0]]);
      expect(await usage(either, `?since=${daysBack(0)}`)).toEqual([days[1]]);
      expect(await usage(either, "?until=1d")).toEqual([]);
    }
    expect(await usage(other)).toEqual([{ day: daysBack(1), ...once }]);
    expect(await usage(other, "?by=model")).toEqual([{ model: "large", ...once }]);
    expect(await usage(await at.gateway.key())).toEqual([]);
  });

  test("reports by day and model, by hour, and by hour and model", async () => {
    provider.answer = usual;
    nextNoon();
    const { clock } = at.gateway;
    const hoursBack = (count: number) => {
      const atMs = clock.epochMs() - count * HOUR_MS;
      return new Date(atMs - (atMs % HOUR_MS)).toISOString();
    };
    const key = await at.gateway.key();
    const other = await at.gateway.key();
    await chat(at.gateway, key);
    clock.advance(DAY_MS);
    await chat(at.gateway, key, { model: "large" });
    await chat(at.gateway, other);
    await chat(at.gateway, key);
    clock.advance(HOUR_MS);
    await chat(at.gateway, key, { stream: true });
    provider.answer = refusal(500);
    await chat(at.gateway, key);
    const failed = { ...once, requests: 2, failed: 1 };
    const thrice = {
      ...twice,
      requests: 4,
      failed: 1,
      prompt_tokens: 60,
      cached_tokens: 15,
      cache_write_tokens: 9,
      completion_tokens: 21,
      cost_rub: "0.0054075",
    };
    const yesterday = { day: daysBack(1), ...once };
    expect(await usage(key, "?by=day")).toEqual([yesterday, { day: daysBack(0), ...thrice }]);
    for (const by of ["day,model", "day%2Cmodel"])
      expect(await usage(key, `?by=${by}`)).toEqual([
        { day: daysBack(1), model: "small", ...once },
        { day: daysBack(0), model: "large", ...once },
        { day: daysBack(0), model: "small", ...twice, requests: 3, failed: 1 },
      ]);
    expect(await usage(key, "?by=hour")).toEqual([
      { hour: hoursBack(25), ...once },
      { hour: hoursBack(1), ...twice },
      { hour: hoursBack(0), ...failed },
    ]);
    expect(await usage(key, "?by=hour,model&since=0d")).toEqual([
      { hour: hoursBack(1), model: "large", ...once },
      { hour: hoursBack(1), model: "small", ...once },
      { hour: hoursBack(0), model: "small", ...failed },
    ]);
    expect(await usage(key, "?by=hour&since=1d&until=0d")).toEqual([
      { hour: hoursBack(25), ...once },
    ]);
    expect(await usage(other, "?by=hour")).toEqual([{ hour: hoursBack(1), ...once }]);
    nextNoon();
    nextNoon();
    expect(await usage(key, "?by=hour")).toHaveLength(2);
  });

  test("counts a running request, and its tokens and cost once it is charged", async () => {
    nextNoon();
    const key = await at.gateway.key();
    provider.answer = usual;
    await chat(at.gateway, key);
    provider.answer = raw(streamHead, piece(helloEvent));
    const open = await openChat(at.gateway, key, { stream: true });
    await open.seen("Hello");
    await untilAsync(
      "it is recorded",
      async () => (await at.gateway.store.requests.find(open.id)) !== undefined,
    );
    const day = daysBack(0);
    expect(await usage(key)).toEqual([{ day, ...once, requests: 2 }]);
    expect(await usage(key, "?by=model")).toEqual([{ model: "small", ...once, requests: 2 }]);
    expect(await usage(key, "?by=hour")).toMatchObject([{ ...once, requests: 2 }]);
    open.disconnect();
    await at.gateway.records(key, 2);
    expect(await usage(key)).toMatchObject([{ day, requests: 2, failed: 0, prompt_tokens: 22 }]);
  });

  test("covers 30 days by default and a year at most", async () => {
    provider.answer = usual;
    nextNoon();
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    for (let day = 1; day < 30; day += 1) nextNoon();
    expect(await usage(key)).toEqual([{ day: daysBack(29), ...once }]);
    nextNoon();
    expect(await usage(key)).toEqual([]);
    expect(await usage(key, "?since=30d")).toEqual([{ day: daysBack(30), ...once }]);
    const before = at.gateway.clock.epochMs();
    await at.gateway.app.gateway.writer.write({ kind: "fold", before });
    expect(await usage(key, "?since=365d")).toEqual([{ day: daysBack(30), ...once }]);
    expect((await ask(key, "?since=366d")).status).toBe(400);
  });

  test("keeps a removed model, and shows refunds beside its cost", async () => {
    provider.answer = usual;
    nextNoon();
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key, { model: "large" });
    const local = `http://127.0.0.1:${provider.port}/v1`;
    await at.gateway.reload(costlyModels("small")({ local }));
    const refunding = { request: id, amount: null, ref: null, note: null };
    await at.gateway.store.admin.refund(
      { name: "tester", command: "test", at: Date.now() },
      refunding,
    );
    expect(await usage(key, "?by=model")).toEqual([
      { model: "large", ...once, refunded_rub: once.cost_rub },
    ]);
    await at.gateway.reload(costlyModels("small", "large")({ local }));
  });

  test.each([
    ["?by=provider", "by must be one of: day, model, day,model, hour, hour,model"],
    ["?by=key", "by must be one of: day, model, day,model, hour, hour,model"],
    ["?by=day&by=model", "by stands twice"],
    ["?account=somebody", "only the parameters by, since and until are accepted"],
    [
      "?since=24h",
      "since must be a date such as 2026-11-01, or a number of days back from today such as 7d",
    ],
    [
      "?until=%zz",
      "until must be a date such as 2026-11-01, or a number of days back from today such as 7d",
    ],
    ["?since=2026-11-01&until=2026-11-01", "since must be earlier than until"],
    ["?since=2020-01-01", "since and until must be at most 366 days apart"],
  ])("refuses %s with a message, and releases the key's slot", async (query, message) => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    expectRefusal(await ask(key, query), [400, "invalid_request_error", message]);
    expect(await usage(key)).toEqual([]);
    expect(at.gateway.app.requests.open).toBe(0);
  });

  /** Takes a turn with a pause so long that all later work waits. */
  async function whileOthersWait<T>(work: () => Promise<T>): Promise<T> {
    const { app, clock } = at.gateway;
    const taken = Promise.withResolvers<void>();
    const report = app.fairQueue.run(0, async (pause) => {
      clock.advance(TURN_MS);
      taken.resolve();
      await pause();
    });
    await taken.promise;
    const done = await work();
    await report;
    return done;
  }

  test("holds one of the key's slots until it has answered", async () => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const replies = await whileOthersWait(() => Promise.all([ask(key), ask(key)]));
    const [told, refused] = replies.toSorted((one, other) => one.status - other.status);
    expect(told?.status).toBe(200);
    expect(refused?.status).toBe(429);
    expect(await usage(key)).toEqual([]);
  });

  test("stops its work when the client disconnects", async () => {
    const key = await at.gateway.key();
    const client = new AbortController();
    await whileOthersWait(async () => {
      const headers = { authorization: `Bearer ${key.key}` };
      const left = fetch(`${at.gateway.url}/v1/usage`, { headers, signal: client.signal });
      await until("it is asked for", () => at.gateway.app.requests.open === 1);
      client.abort();
      expect(await left.catch((error: unknown) => error)).toBeInstanceOf(Error);
    });
    await until("it is over", () => at.gateway.app.requests.open === 0);
    const line = at.gateway.log.findLast(({ path }) => path === "/v1/usage");
    expect(line).toMatchObject({ account: key.account, status: 400 });
  });

  test("is a 502 when the drain time is over", async () => {
    const { inFlight } = at.gateway.app.gateway;
    const key = await at.gateway.key();
    const reply = await whileOthersWait(async () => {
      const asked = ask(key);
      await until("it is asked for", () => at.gateway.app.requests.open === 1);
      inFlight.isAborting = true;
      return asked;
    }).finally(() => (inFlight.isAborting = false));
    expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
    expect(await usage(key)).toEqual([]);
  });

  test("runs at most four reports of an account at once", async () => {
    const key = await at.gateway.key();
    const other = await at.gateway.key();
    const [fifth, ...four] = await whileOthersWait(async () => {
      const asked = Array.from({ length: 5 }, () => ask(key));
      asked.push(ask(other));
      const replies = await Promise.all(asked);
      expect(replies.pop()?.status).toBe(200);
      return replies.toSorted((one, another) => another.status - one.status);
    });
    expect([fifth?.status, fifth?.body]).toEqual([
      429,
      { error: { message: "rate limit exceeded", type: "rate_limit_error" } },
    ]);
    expect(fifth?.headers.get("retry-after")).toBe("1");
    expect(four.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await usage(key)).toEqual([]);
  });
});

test("no answer names a provider or the operator's cost", async () => {
  provider.answer = usual;
  nextNoon();
  const key = await at.gateway.key();
  const { id } = await chat(at.gateway, key);
  const paths = [
    "/v1/account",
    "/v1/usage",
    "/v1/usage?by=model",
    "/v1/requests",
    `/v1/requests/${id}`,
  ];
  for (const path of paths) {
    const { text } = await call(at.gateway, key, { path });
    expect(text).toContain("0.0018025".slice(0, 5));
    for (const secret of ["local", "provider", "operator", "own", "write_off", "hold_", key.key]) {
      expect([path, secret, text.includes(secret)]).toEqual([path, secret, false]);
    }
  }
});
