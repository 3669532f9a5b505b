import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  stopEvent,
  streamed,
  usual,
} from "../../support/provider/chatAnswers.ts";
import {
  call,
  chat,
  expectRefusal,
  openChat,
  type ExpectedError,
} from "../../support/gateway/chatCalls.ts";
import { costlyModels, prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  cut,
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { untilAsync } from "../../support/until.ts";

const at = openBefore(["local"], costlyModels("small", "old"));
const provider = at.providers.local;

const noRequest: ExpectedError = [404, "invalid_request_error", "request not found"];

function ask(key: TestKey, id: string) {
  return call(at.gateway, key, { path: `/v1/requests/${id}` });
}

async function receipt(key: TestKey, id: string): Promise<Record<string, unknown>> {
  const { status, body } = await ask(key, id);
  expect(status).toBe(200);
  return body as Record<string, unknown>;
}

/** The complete receipt of a usual chat. */
function usualReceipt(key: TestKey, id: string): Record<string, unknown> {
  return {
    id,
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    key_id: key.id,
    endpoint: "chat",
    model: "small",
    stream: false,
    status: "done",
    prompt_tokens: 20,
    cached_tokens: 5,
    cache_write_tokens: 3,
    cache_write_1h_tokens: 0,
    completion_tokens: 7,
    web_searches: 0,
    estimated: false,
    cost_rub: "0.0018025",
    refunded_rub: "0",
    rub_input_per_1m: prices.input,
    rub_output_per_1m: prices.output,
    rub_cached_input_per_1m: prices.cachedInput,
    rub_cache_write_per_1m: prices.cacheWrite,
    rub_cache_write_1h_per_1m: prices.cacheWrite,
    rub_web_search_per_1k: 0,
    duration_ms: expect.any(Number),
    first_byte_ms: null,
    attempts: [{ outcome: "ok", duration_ms: expect.any(Number) }],
  };
}

const unbilled = {
  prompt_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  completion_tokens: 0,
  cost_rub: "0",
};

describe("GET /v1/requests/{id}", () => {
  test("shows the receipt of an answer as soon as the client has read it, JSON or stream", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key);
    const whole = usualReceipt(key, id);
    expect(await receipt(key, id)).toEqual(whole);
    const stream = await chat(at.gateway, key, { stream: true });
    const ofStream = await receipt(key, stream.id);
    expect(ofStream).toEqual({
      ...whole,
      id: stream.id,
      stream: true,
      first_byte_ms: expect.any(Number),
    });
    expect(Number(ofStream["first_byte_ms"])).toBeLessThanOrEqual(Number(ofStream["duration_ms"]));
  });

  test("shows receipts of responses and of estimated answers", async () => {
    provider.answer = responds();
    const key = await at.gateway.key();
    const { id } = await respond(at.gateway, key);
    expect(await receipt(key, id)).toMatchObject({ endpoint: "responses", status: "done" });
    provider.answer = raw(streamHead, piece(helloEvent));
    const open = await openChat(at.gateway, key, { stream: true });
    await open.seen("Hello");
    open.disconnect();
    await at.gateway.records(key, 2);
    expect(await receipt(key, open.id)).toMatchObject({ status: "cancelled", estimated: true });
  });

  test("shows a failed request without a charge and without a provider", async () => {
    provider.answer = refusal(500);
    const key = await at.gateway.key();
    const { id, status } = await chat(at.gateway, key);
    expect(status).toBe(502);
    const attempts = [{ outcome: "unavailable", duration_ms: expect.any(Number) }];
    const failed = { ...unbilled, status: "failed", attempts };
    expect(await receipt(key, id)).toEqual({ ...usualReceipt(key, id), ...failed });
  });

  test("shows an answer that was cut without a charge", async () => {
    provider.answer = cut("fin", streamHead, piece(helloEvent));
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key, { stream: true });
    expect(await receipt(key, id)).toMatchObject({ ...unbilled, status: "failed" });
    expect((await at.gateway.store.requests.find(id))?.operatorCost).toBeNull();
  });

  test("shows an open request as running", async () => {
    const go = Promise.withResolvers<void>();
    provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), piece(doneEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const open = await openChat(at.gateway, key, { stream: true });
    await open.seen("Hello");
    await untilAsync(
      "it is recorded",
      async () => (await at.gateway.store.requests.find(open.id)) !== undefined,
    );
    const seen = await receipt(key, open.id);
    go.resolve();
    const running = {
      ...unbilled,
      status: "running",
      stream: true,
      attempts: [],
      duration_ms: null,
    };
    expect(seen).toEqual({ ...usualReceipt(key, open.id), ...running });
    await at.gateway.records(key, 1);
  });

  test("shows refunds, and leaves the cost unchanged", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key);
    const other = await chat(at.gateway, key);
    for (const [amount, refunded] of [
      [500_000n, "0.0005"],
      [300_000n, "0.0008"],
      [null, "0.0018025"],
    ] as const) {
      const actor = { name: "tester", command: "test", at: Date.now() };
      await at.gateway.store.admin.refund(actor, { request: id, amount, ref: null, note: null });
      const whole = { ...usualReceipt(key, id), refunded_rub: refunded };
      expect(await receipt(key, id)).toEqual(whole);
    }
    expect(await receipt(key, other.id)).toEqual(usualReceipt(key, other.id));
  });

  test("is for every key of the account, also when the model was removed", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key, { model: "old" });
    const local = `http://127.0.0.1:${provider.port}/v1`;
    await at.gateway.reload(costlyModels("small")({ local }));
    const second = await at.gateway.key({ account: key.account, balance: 0n, models: ["small"] });
    expect(await receipt(second, id)).toEqual({ ...usualReceipt(key, id), model: "old" });
    await at.gateway.reload(costlyModels("small", "old")({ local }));
  });
});

describe("an unknown request", () => {
  test("answers the same 404 for another account's request as for an id that never existed", async () => {
    provider.answer = streamed;
    const [alice, bob] = [await at.gateway.key(), await at.gateway.key()];
    const { id } = await chat(at.gateway, alice, { stream: true });
    expectRefusal(await ask(bob, id), noRequest);
    expectRefusal(await ask(bob, `${id.slice(0, -1)}${id.endsWith("0") ? "1" : "0"}`), noRequest);
    expect((await ask(alice, id)).status).toBe(200);
  });

  test.each([
    "",
    "req_",
    "unknown",
    "%",
    "%zz",
    "%00",
    "req_1%27%20OR%20%271%27=%271",
    "req_%",
    "*",
    "a/b",
    "req_00000000000000000000",
    "ж",
    "x".repeat(200),
  ])("is not found as %j", async (id) => {
    expectRefusal(await ask(await at.gateway.key(), id), noRequest);
  });

  test("is not found in another letter case, with a trailing slash, or quoted", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key);
    for (const other of [id.toUpperCase(), `${id}/`, `${id}/x`, `"${id}"`, `${id}%00`, ` ${id}`]) {
      expectRefusal(await ask(key, encodeURI(other)), noRequest);
    }
    expect((await ask(key, `${id}?by=day`)).status).toBe(200);
  });

  test("is one whose record was folded into the daily totals", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key);
    expect((await ask(key, id)).status).toBe(200);
    // It knows the records of all answers so far. After the fold it would miss them.
    await at.gateway.expectAuditPasses();
    const before = at.gateway.clock.epochMs() + 60_000;
    await at.gateway.app.gateway.writer.write({ kind: "fold", before });
    expectRefusal(await ask(key, id), noRequest);
  });
});
