import { describe, expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { answered, choice, completion, usage, usual } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { json } from "../../support/provider/scriptedProvider.ts";

const at = openOneModelBefore();
const strict = openOneModelBefore({ api: { unknown_fields: "reject" } });

const toolCalls = [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }];
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** The first choice of the answer when the provider sends this. */
async function firstChoice(message: object, changes: object = {}): Promise<unknown> {
  at.provider.answer = answered({ choices: [choice(message, changes)] });
  const reply = await chat(at.gateway, await at.gateway.key());
  expect(reply.status).toBe(200);
  return (reply.body as { choices: unknown[] }).choices[0];
}

describe("a JSON answer", () => {
  test("has every documented field, an id of the gateway and the requested model", async () => {
    at.provider.answer = usual;
    const reply = await chat(at.gateway, await at.gateway.key());
    expect(reply.body).toEqual({
      id: reply.id.replace("req_", "chatcmpl-"),
      object: "chat.completion",
      created: 1_700_000_000,
      model: "small",
      choices: [
        { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello there" } },
      ],
      usage,
    });
  });

  test("has the gateway's headers and no header of the provider", async () => {
    at.provider.answer = json(completion(), {
      headers: {
        "openai-organization": "org-secret",
        "set-cookie": "session=1",
        "x-ratelimit-remaining-requests": "3",
        "x-request-id": "of-the-provider",
        "alt-svc": "h3",
        server: "upstream",
        "access-control-allow-origin": "*",
      },
    });
    const { headers, id } = await chat(at.gateway, await at.gateway.key());
    const { date, "content-length": length, ...others } = Object.fromEntries(headers);
    expect([date, length]).toEqual([expect.any(String), expect.stringMatching(/^\d+$/)]);
    expect(others).toEqual({
      "content-type": "application/json",
      "cache-control": "no-store",
      vary: "authorization, x-api-key",
      "x-request-id": id,
      "x-tollgate-cost-rub": formatRoubles(cost),
    });
    expect(id).toMatch(/^req_[0-9a-z]{20}$/);
  });

  test("is charged exactly: plain, cached and cache-write input and output, each at its price", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const { id } = await chat(at.gateway, key);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { id, status: "done", charge: cost, writeOff: 0n, estimated: false, provider: "local" },
    ]);
  });

  test("has the time of the request when the provider sends none", async () => {
    const now = Math.floor(Date.now() / 1000);
    for (const created of [undefined, null, "1", -1, 1.5]) {
      at.provider.answer = answered({ created });
      const { body } = await chat(at.gateway, await at.gateway.key());
      expect((body as { created: number }).created).toBeWithin(now, now + 60);
    }
  });

  test.each([
    ["null", { content: null }],
    ["absent", { content: undefined }],
    ["a list without text", { content: [{ type: "image" }] }],
  ])("turns the content %j into an empty text", async (_, message) => {
    expect(await firstChoice(message)).toMatchObject({ message: { content: "" } });
  });

  test("joins a list of text parts to one text", async () => {
    const content = [
      { type: "text", text: "Hel" },
      { type: "text", text: "lo" },
    ];
    expect(await firstChoice({ content })).toMatchObject({ message: { content: "Hello" } });
  });

  test.each([
    ["stop", {}, "stop"],
    ["length", {}, "length"],
    ["content_filter", {}, "content_filter"],
    ["tool_calls", {}, "tool_calls"],
    ["end_turn", {}, "stop"],
    ["sensitive", {}, "content_filter"],
    ["model_length", {}, "length"],
    ["model_context_window_exceeded", {}, "length"],
    ["", {}, "stop"],
    [null, {}, "stop"],
    [undefined, {}, "stop"],
    [7, {}, "stop"],
    [null, { tool_calls: toolCalls }, "tool_calls"],
    ["end_turn", { tool_calls: toolCalls }, "tool_calls"],
    ["stop", { tool_calls: toolCalls }, "tool_calls"],
    ["length", { tool_calls: toolCalls }, "length"],
    ["MAX_TOKENS", {}, "length"],
    ["function_call", { function_call: { name: "f" } }, "tool_calls"],
    [null, { tool_calls: [] }, "stop"],
  ])("maps the finish reason %j with %j to %s", async (reported, message, shown) => {
    const found = await firstChoice(message, { finish_reason: reported });
    expect(found).toMatchObject({ finish_reason: shown });
  });

  test("forwards unknown fields of the answer, a choice, a message and the usage", async () => {
    const message = { reasoning_content: "hm", refusal: null, tool_calls: toolCalls };
    const details = { reasoning_tokens: 4 };
    at.provider.answer = answered({
      system_fingerprint: "fp",
      choices: [choice(message, { logprobs: { content: [] } })],
      usage: { ...usage, completion_tokens_details: details },
    });
    const { body } = await chat(at.gateway, await at.gateway.key());
    expect(body).toMatchObject({
      system_fingerprint: "fp",
      choices: [{ logprobs: { content: [] }, message }],
      usage: { ...usage, completion_tokens_details: details },
    });
  });

  test.each([
    ["auto", true],
    ["default", true],
    ["flex", true],
    ["scale", true],
    ["priority", true],
    [null, true],
    ["on_demand", false],
    ["", false],
    [1, false],
  ])("maps a service_tier of %j to %p", async (service_tier, isShown) => {
    at.provider.answer = answered({ service_tier, system_fingerprint: "fp" });
    const { body } = await chat(at.gateway, await at.gateway.key());
    expect(body).toMatchObject({ system_fingerprint: "fp", ...(isShown && { service_tier }) });
    expect("service_tier" in (body as object)).toBe(isShown);
  });

  test("drops unknown fields with unknown_fields = reject", async () => {
    strict.provider.answer = answered({
      system_fingerprint: "fp",
      choices: [choice({ reasoning_content: "hm", tool_calls: [{}] }, { logprobs: {} })],
      usage: { ...usage, completion_tokens_details: {}, cost: 1 },
    });
    const { body } = await chat(strict.gateway, await strict.gateway.key());
    expect(body).toEqual({
      id: expect.any(String),
      object: "chat.completion",
      created: 1_700_000_000,
      model: "small",
      choices: [choice()],
      usage,
    });
  });

  test("has all choices with their indexes", async () => {
    const second = choice({ content: "Hi" }, { index: 1 });
    const withoutIndex = choice({ content: "Hey" }, { index: undefined });
    at.provider.answer = answered({ choices: [choice(), second, withoutIndex] });
    const { body } = await chat(at.gateway, await at.gateway.key(), { n: 3 });
    const { choices } = body as { choices: { index: number; message: { content: string } }[] };
    expect(choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, "Hello there"],
      [1, "Hi"],
      [2, "Hey"],
    ]);
  });
});

test("an answer with 1,025 choices is a 502, and is charged", async () => {
  at.provider.answer = answered({ choices: Array(1025).fill(choice({})) });
  const key = await at.gateway.key();
  expectRefusal(await chat(at.gateway, key), noProvider);
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled" });
  expect(record?.charge).toBeGreaterThan(0n);
});

describe("an invalid answer is the provider's failure", () => {
  const failing = (reason: string) => ({ choices: [choice({}, { finish_reason: reason })] });

  test.each([
    ["no choices", { choices: [] }],
    ["choices that are no list", { choices: {} }],
    ["choices of null", { choices: null }],
    ["a choice with the index 1,024", { choices: [choice({}, { index: 1024 })] }],
    ["a choice that is no object", { choices: ["x"] }],
    ["a choice without a message", { choices: [{ index: 0, finish_reason: "stop" }] }],
    ["content is a number", { choices: [choice({ content: 5 })] }],
    ["the finish reason error", failing("error")],
    ["the finish reason of DeepSeek for an error", failing("insufficient_system_resource")],
    ["the finish reason of Zhipu for an error", failing("network_error")],
    ["an error in a choice", { choices: [choice({}, { error: { code: 502, message: "x" } })] }],
    ["an error beside the answer", { error: { message: "overloaded" } }],
  ])("%s", async (_, changes) => {
    at.provider.answer = answered(changes);
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key), noProvider);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });
});
