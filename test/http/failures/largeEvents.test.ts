import { describe, expect, test } from "bun:test";
import { helloEvent, streamed } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  ended,
  responds,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    { id: "small", routes: [{ provider: "local", model: "small" }] },
    { id: "over", routes: [{ provider: "local", model: "over", api: "responses" }] },
  ],
}));
const { local } = at.providers;
const started = 100_000_000_000n;
const usual = costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 });
const streaming = { stream: true };
/** This many failures in a row open the breaker of a route. */
const FAILURES_MAX = 5;

/** A size that only a caller can cause, with its own instructions or with log probabilities. */
const long = "-".repeat(6 * 1024 * 1024);

describe("an event as long as a JSON answer may be is accepted, and charged exactly", () => {
  test("of the responses interface", async () => {
    const last = terminal("completed", "resp_1", { instructions: long });
    local.answer = stream(created(), delta, last);
    const key = await at.gateway.key();
    const reply = await respond(at.gateway, key, streaming);
    expect(reply.text === created() + delta + last).toBe(true);
    expect(await at.gateway.balance(key)).toBe(started - usual);
  });

  test.each([
    ["of a chat", "small", [helloEvent, chatEvent({ extra: long }, "stop")]],
    [
      "of a response that answers a chat",
      "over",
      [created(), delta, terminal("completed", "resp_1", { instructions: long })],
    ],
  ])("%s", async (_, model, events) => {
    local.answer = stream(...events);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { ...streaming, model });
    expect(chunksOf(reply).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done" }]);
  });
});

const items = Array.from({ length: 1025 }, (_, at) => ({
  id: `fc_${at}`,
  type: "function_call",
  call_id: `call_${at}`,
  name: "f",
  arguments: "{}",
}));
const tooMany = terminal("completed", "resp_1", { output: items });
const begun = [created(), delta];

describe("a caller's oversized answer does not open the breaker", () => {
  const key = () => at.gateway.key();

  test("in a chat: an event over the bound, which is charged", async () => {
    local.answer = stream(helloEvent, `data: ${"-".repeat(32 * 1024 * 1024)}-\n\n`);
    for (let time = 0; time < FAILURES_MAX; time += 1) {
      const own = await key();
      const reply = await chat(at.gateway, own, streaming);
      expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
      const [record] = await at.gateway.records(own, 1);
      expect(record).toMatchObject({ status: "cancelled", estimated: true });
      expect(record?.charge).toBeGreaterThan(0n);
      const [attempt] = await at.gateway.store.requests.attempts(reply.id);
      expect(attempt).toMatchObject({ outcome: "too large" });
    }
    local.answer = streamed;
    expect((await chat(at.gateway, await key(), streaming)).status).toBe(200);
  });

  test("in a chat over the responses interface: too many calls, which are charged", async () => {
    local.answer = stream(...begun, tooMany);
    const charge = costOf({ prompt: 2, completion: 3 });
    for (let time = 0; time < FAILURES_MAX; time += 1) {
      const own = await key();
      const reply = await chat(at.gateway, own, { ...streaming, model: "over" });
      expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
      expect(await at.gateway.records(own, 1)).toMatchObject([
        { status: "cancelled", estimated: true, charge },
      ]);
    }
    local.answer = responds();
    expect((await chat(at.gateway, await key(), { ...streaming, model: "over" })).status).toBe(200);
  });

  test.each<[string, ProviderAnswer]>([
    ["a stream", stream(...begun, tooMany)],
    ["JSON", json(ended("resp_1", { output: items }))],
  ])("in a response as %s: too many items, which are charged", async (form, answer) => {
    local.answer = answer;
    const asked = { stream: form === "a stream" };
    for (let time = 0; time < FAILURES_MAX; time += 1) {
      const own = await key();
      await respond(at.gateway, own, asked);
      expect(await at.gateway.records(own, 1)).toMatchObject([
        { status: "cancelled", estimated: false, charge: usual },
      ]);
    }
    local.answer = responds();
    expect((await respond(at.gateway, await key(), asked)).status).toBe(200);
  });
});
