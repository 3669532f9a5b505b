import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { createServer } from "../../../src/http/server.ts";
import { call, chat, openChat } from "../../support/gateway/chatCalls.ts";
import { fillStore } from "../../support/store/fullStore.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { ended as respondedWith } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { growth, scrape, type Sample, type Scrape } from "../../support/gateway/scrape.ts";
import {
  json,
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { beginChat } from "../../support/gateway/steppedChat.ts";
import { until } from "../../support/until.ts";
import { redeem } from "../../support/gateway/voucherCalls.ts";
import { testSqlite } from "../../support/testedEngines.ts";

const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: { one, two },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "paired", routes: [{ provider: "one" }, { provider: "two", model: "other-name" }] },
  ],
  sections: {
    metrics: { listen: "127.0.0.1:0" },
    billing: { disconnect_grace: "50ms", hold_wait: "0s" },
  },
}));

const grown = (work: () => Promise<unknown>): Promise<Pick<Scrape, "value" | "all">> =>
  growth(at.gateway.metricsUrl, work);

const label = (labels: Sample["labels"], value = 1) => ({ labels, value });

describe("requests with a hold are counted by endpoint, model and outcome", () => {
  test("answered: with tokens of each kind, roubles, and durations", async () => {
    at.providers.one.answer = usual;
    const key = await at.gateway.key();
    const { value, all } = await grown(async () => {
      expect((await chat(at.gateway, key)).status).toBe(200);
      expect((await chat(at.gateway, key, { stream: true })).status).toBe(200);
    });
    const done = { endpoint: "chat", model: "small", outcome: "done" };
    expect(all("tollgate_requests_total")).toEqual([label(done, 2)]);
    expect(all("tollgate_requests_refused_total")).toEqual([]);
    expect(all("tollgate_attempts_total")).toEqual([
      label({ provider: "one", model: "small", outcome: "ok" }, 2),
    ]);
    expect(all("tollgate_tokens_total")).toEqual(
      Object.entries({ input: 24, cached_input: 10, cache_write: 6, output: 14 }).map(
        ([kind, count]) => label({ model: "small", provider: "one", kind }, count),
      ),
    );
    expect(value("tollgate_charged_roubles_total", { model: "small" })).toBeCloseTo(0.003605, 9);
    expect(
      value("tollgate_request_duration_seconds_count", { endpoint: "chat", model: "small" }),
    ).toBe(2);
    const by = { provider: "one", model: "small" };
    expect(value("tollgate_attempt_duration_seconds_count", by)).toBe(2);
    expect(value("tollgate_time_to_first_content_seconds_count", by)).toBe(1);
    expect(value("tollgate_estimates_total", { model: "small" })).toBe(0);
    expect(value("tollgate_store_commit_duration_seconds_count")).toBeGreaterThan(0);
  });

  test("of the responses interface", async () => {
    at.providers.one.answer = json(respondedWith());
    const { all } = await grown(async () => respond(at.gateway, await at.gateway.key()));
    expect(all("tollgate_requests_total")).toEqual([
      label({ endpoint: "responses", model: "small", outcome: "done" }),
    ]);
  });

  test("answered by the second route: the first attempt counts with its own outcome", async () => {
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = usual;
    const { all } = await grown(async () =>
      chat(at.gateway, await at.gateway.key(), { model: "paired" }),
    );
    expect(all("tollgate_requests_total")).toEqual([
      label({ endpoint: "chat", model: "paired", outcome: "done" }),
    ]);
    expect(all("tollgate_attempts_total")).toEqual([
      label({ provider: "one", model: "paired", outcome: "status 500" }),
      label({ provider: "two", model: "paired", outcome: "ok" }),
    ]);
  });

  test("failed: counted once, and not as refused", async () => {
    at.providers.one.answer = raw("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope");
    const { all } = await grown(async () => chat(at.gateway, await at.gateway.key()));
    expect(all("tollgate_requests_total")).toEqual([
      label({ endpoint: "chat", model: "small", outcome: "failed" }),
    ]);
    expect(all("tollgate_requests_refused_total")).toEqual([]);
    expect(all("tollgate_attempts_total")).toEqual([
      label({ provider: "one", model: "small", outcome: "invalid answer" }),
    ]);
    expect(all("tollgate_charged_roubles_total")).toEqual([]);
  });

  test.each([
    ["was cut", "incomplete answer", "failed", []],
    ["ended well", "ok", "done", [stopEvent, usageEvent, doneEvent]],
  ])(
    "a stream that %s counts its attempt as %s, with its duration",
    async (_, outcome, status, end) => {
      const go = Promise.withResolvers<void>();
      at.providers.one.answer = async (peer, request) => {
        await raw(streamHead, piece(helloEvent))(peer, request);
        await go.promise;
        await raw(...end.map(piece), streamEnd)(peer, request);
      };
      let id = "";
      const { value, all } = await grown(async () => {
        const reply = await openChat(at.gateway, await at.gateway.key(), { stream: true });
        await reply.seen("Hello");
        at.gateway.clock.advance(20_000);
        go.resolve();
        await reply.seen("[DONE]");
        ({ id } = reply);
      });
      const [attempt] = await at.gateway.store.requests.attempts(id);
      expect(attempt).toMatchObject({ outcome, status: 200 });
      expect(attempt?.durationMs).toBeWithin(20_000, 30_000);
      const by = { provider: "one", model: "small" };
      expect(value("tollgate_time_to_first_content_seconds_sum", by)).toBeLessThan(10);
      // The record of a single good attempt has the duration of its request, which is a little longer.
      expect(value("tollgate_attempt_duration_seconds_sum", by)).toBeWithin(20, 30);
      expect(all("tollgate_requests_total")).toEqual([
        label({ endpoint: "chat", model: "small", outcome: status }),
      ]);
      expect(all("tollgate_attempts_total")).toEqual([
        label({ provider: "one", model: "small", outcome }),
      ]);
    },
  );

  test("cancelled by a disconnect, and charged by an estimate", async () => {
    at.providers.one.answer = raw(streamHead, piece(helloEvent));
    const key = await at.gateway.key();
    const { value, all } = await grown(async () => {
      const reply = await openChat(at.gateway, key, { stream: true });
      await reply.seen("Hello");
      reply.disconnect();
      await at.gateway.records(key, 1);
      await at.gateway.expectAuditPasses();
    });
    expect(all("tollgate_requests_total")).toEqual([
      label({ endpoint: "chat", model: "small", outcome: "cancelled" }),
    ]);
    expect(all("tollgate_attempts_total")).toEqual([
      label({ provider: "one", model: "small", outcome: "client disconnected" }),
    ]);
    expect(value("tollgate_estimates_total", { model: "small" })).toBe(1);
  });

  test("with the write-off", async () => {
    const usage = { prompt_tokens: 1_000_000, completion_tokens: 1_000_000 };
    at.providers.one.answer = answered({ usage });
    const key = await at.gateway.key({ balance: 1_000_000_000n });
    const { value } = await grown(() => chat(at.gateway, key));
    expect(value("tollgate_charged_roubles_total", { model: "small" })).toBeCloseTo(1, 9);
    expect(value("tollgate_written_off_roubles_total", { model: "small" })).toBeCloseTo(224, 9);
  });
});

testSqlite.each([false, true])(
  "an end that cannot be committed is counted as failed once, and not as refused (stream: %j)",
  async (stream) => {
    const provider = at.providers.one;
    const { writer } = at.gateway.app.gateway;
    const { all } = await grown(async () => {
      const begun = await beginChat({ gateway: at.gateway, provider }, { stream });
      await until("it is recorded", () => writer.queued === 0);
      const makeRoom = fillStore(at.gateway.path);
      try {
        await usual(begun.peer, await provider.request(0));
        await until("there is no room", () => writer.blockedBy === "full");
        at.gateway.clock.advance(10_000);
        await begun.client.seen(stream ? "[DONE]" : "service temporarily unavailable");
      } finally {
        makeRoom();
      }
      begun.client.fin();
      await at.gateway.records(begun.key, 1);
    });
    expect(all("tollgate_requests_total")).toEqual([
      label({ endpoint: "chat", model: "small", outcome: "failed" }),
    ]);
    expect(all("tollgate_requests_refused_total")).toEqual([]);
    expect(all("tollgate_charged_roubles_total")).toEqual([]);
  },
);

/** A chat of a key whose rate is used up by a request for the models. */
async function tooOften(): Promise<void> {
  const key = await at.gateway.key({ requestsPerMinute: 1 });
  expect((await call(at.gateway, key, { path: "/v1/models" })).status).toBe(200);
  expect((await chat(at.gateway, key)).status).toBe(429);
}

describe("requests that are refused before a hold are counted by status", () => {
  const refused = (endpoint: string, status: number) => [
    label({ endpoint, status: String(status) }),
  ];

  test.each<[number, string, () => Promise<unknown>]>([
    [400, "chat", async () => call(at.gateway, await at.gateway.key(), { body: "{" })],
    [400, "responses", async () => respond(at.gateway, await at.gateway.key(), "{")],
    [401, "chat", () => chat(at.gateway, undefined)],
    [402, "chat", async () => chat(at.gateway, await at.gateway.key({ balance: 0n }))],
    [
      404,
      "chat",
      async () => chat(at.gateway, await at.gateway.key(), { model: "invented-by-a-client" }),
    ],
    [400, "vouchers", async () => redeem(at.gateway, await at.gateway.key(), "7Q2MV")],
    [404, "other", () => call(at.gateway, undefined, { path: "/invented" })],
    [429, "chat", () => tooOften()],
  ])("%d, %s", async (status, endpoint, work) => {
    const { all } = await grown(work);
    expect(all("tollgate_requests_refused_total")).toEqual(refused(endpoint, status));
    expect(all("tollgate_requests_total")).toEqual([]);
  });

  test("each route of the API has the label that it declares", async () => {
    const { routes } = createServer(at.gateway.app);
    const ofApi = routes.filter(({ path }) => path.startsWith("/v1/"));
    expect(ofApi.length).toBeGreaterThan(10);
    for (const { method, path, hooks } of ofApi) {
      const endpoint: unknown = Reflect.get(hooks, "endpoint");
      const { all } = await grown(() => call(at.gateway, undefined, { path, method }));
      expect(all("tollgate_requests_refused_total")).toEqual(refused(String(endpoint), 401));
    }
  });

  test("502 while the gateway drains", async () => {
    const { all } = await grown(async () => {
      at.gateway.app.phase = "refusing";
      await chat(at.gateway, await at.gateway.key());
      at.gateway.app.phase = "serving";
    });
    expect(all("tollgate_requests_refused_total")).toEqual(refused("chat", 502));
  });
});

describe("current values", () => {
  test("show a stream and its hold while it is open, and nothing after it", async () => {
    at.providers.one.answer = raw(streamHead, piece(helloEvent));
    const reply = await openChat(at.gateway, await at.gateway.key(), { stream: true });
    await reply.seen("Hello");
    const open = await scrape(at.gateway.metricsUrl);
    expect(open.value("tollgate_open_requests")).toBe(1);
    expect(open.value("tollgate_open_streams")).toBe(1);
    expect(open.value("tollgate_held_roubles")).toBeCloseTo(
      Number(at.gateway.app.gateway.holds.total()) / 1e9,
      9,
    );
    expect(open.value("tollgate_held_roubles")).toBeGreaterThan(0.2);
    reply.disconnect();
    await at.gateway.expectAuditPasses();
    await until("the request is over", () => at.gateway.app.requests.open === 0);
    const after = await scrape(at.gateway.metricsUrl);
    for (const name of ["open_requests", "open_streams", "held_roubles", "store_queued_writes"]) {
      expect([name, after.value(`tollgate_${name}`)]).toEqual([name, 0]);
    }
  });

  test("show a JSON answer that is read after its client disconnected", async () => {
    const provider = at.providers.one;
    const { disconnect, provide } = await beginChat({ gateway: at.gateway, provider }, {});
    await disconnect();
    const detached = await scrape(at.gateway.metricsUrl);
    expect(detached.value("tollgate_detached_answers")).toBe(1);
    await provide("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
    await at.gateway.expectAuditPasses();
    await until("nothing is read on", () => at.gateway.app.gateway.leftAnswers.count === 0);
    const after = await scrape(at.gateway.metricsUrl);
    expect(after.value("tollgate_detached_answers")).toBe(0);
  });
});
