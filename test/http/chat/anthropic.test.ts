import { describe, expect, test } from "bun:test";
import {
  begunMessage,
  endEvent,
  message,
  messageEvent,
  messageUsage,
  startEvent,
  stopEvent,
  textEvent,
  usualMessage,
} from "../../support/provider/anthropicAnswers.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const apiKey = "sk-ant-0123456789abcdef";
const route = { provider: "claude", model: "claude-sonnet-4-5", responses: false };

const at = openBefore(["claude", "other"], ({ claude, other }) => ({
  providers: {
    claude: { base_url: claude, kind: "anthropic", api_key: apiKey },
    headed: {
      base_url: claude,
      kind: "anthropic",
      api_key: apiKey,
      "headers.anthropic-version": "2099-01-01",
      "headers.anthropic-beta": "context-1m-2025-08-07",
    },
    other: { base_url: other },
  },
  models: [
    { id: "small", routes: [route] },
    { id: "headed", routes: [{ ...route, provider: "headed" }] },
    { id: "saved", routes: [route, { provider: "other" }] },
  ],
}));

const asked = { messages: [{ role: "user", content: "hello" }] };
const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const streaming = { stream: true, stream_options: { include_usage: true } };
const shown = {
  prompt_tokens: 20,
  completion_tokens: 7,
  total_tokens: 27,
  prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
};

/** An error in the form of https://platform.claude.com/docs/en/api/errors. */
function refused(status: number, type: string, words: string): ProviderAnswer {
  return json({ type: "error", error: { type, message: words } }, { status });
}

describe("a model of a provider of kind anthropic", () => {
  test.each([false, true])("ends at a blank stop sequence, stream %p", async (isStream) => {
    at.providers.claude.answer = isStream
      ? begunMessage(textEvent(" one\n"), textEvent("\ntwo"), endEvent(), stopEvent)
      : json(message({ content: [{ type: "text", text: "Hello one\n\ntwo" }] }));
    const key = await at.gateway.key();
    const stop = ["\n\n", "END"];
    const { text } = await chat(at.gateway, key, { ...asked, stop, ...(isStream && streaming) });
    expect(text).toContain("one");
    expect(text).toContain('"finish_reason":"stop"');
    expect(text).not.toContain("two");
    expect(at.providers.claude.requests[0]?.json["stop_sequences"]).toEqual(["END"]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: exact }]);
  });

  test("answers in JSON, charged exactly with its cache prices", async () => {
    at.providers.claude.answer = usualMessage;
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, asked);
    expect(reply.body).toMatchObject({
      object: "chat.completion",
      model: "small",
      choices: [
        {
          index: 0,
          finish_reason: "stop",
          message: { role: "assistant", content: "Hello there" },
        },
      ],
      usage: shown,
    });
    expect(reply.text).not.toContain("provider");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, charge: exact, cachedTokens: 5, cacheWriteTokens: 3 },
    ]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - exact);
  });

  test("answers as a stream, charged exactly by its last usage", async () => {
    at.providers.claude.answer = usualMessage;
    const key = await at.gateway.key();
    const chunks = chunksOf(await chat(at.gateway, key, { ...asked, ...streaming }));
    expect(chunks.map(({ choices }) => choices)).toEqual([
      [{ index: 0, delta: { role: "assistant" }, finish_reason: null }],
      [{ index: 0, delta: { content: "Hello" }, finish_reason: null }],
      [{ index: 0, delta: { content: " there" }, finish_reason: null }],
      [{ index: 0, delta: {}, finish_reason: "stop" }],
    ]);
    expect(chunks.at(-1)).toMatchObject({ usage: shown });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, charge: exact },
    ]);
  });

  test("receives its own path and headers, and no header of the client", async () => {
    at.providers.claude.answer = usualMessage;
    await chat(at.gateway, await at.gateway.key(), { ...asked, max_tokens: 50 });
    const [request] = at.providers.claude.requests;
    expect(request?.requestLine).toBe("POST /v1/messages HTTP/1.1");
    expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
      "x-api-key": apiKey,
      "anthropic-version": "2023-06-01",
      "content-type": "application/json",
    });
    expect(request?.text.toLowerCase()).not.toContain("authorization");
    expect(request?.json).toEqual({
      model: "claude-sonnet-4-5",
      max_tokens: 50,
      messages: [{ role: "user", content: [{ type: "text", text: "hello" }] }],
    });
  });

  test("always receives a bound", async () => {
    at.providers.claude.answer = usualMessage;
    await chat(at.gateway, await at.gateway.key(), asked);
    expect(at.providers.claude.requests[0]?.json).toMatchObject({ max_tokens: 1000 });
  });

  test("cannot serve n = 2: the next route answers, and without one it is a 400", async () => {
    at.providers.other.answer = usual;
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { ...asked, model: "saved", n: 2 })).status).toBe(200);
    expectRefusal(await chat(at.gateway, key, { ...asked, n: 2 }), [
      400,
      "invalid_request_error",
      "n is not supported by this model's provider",
    ]);
    expect(at.providers.claude.requests).toEqual([]);
  });

  test("does not turn a failover into a 400", async () => {
    at.providers.other.answer = json({}, { status: 429, headers: { "retry-after": "7" } });
    const ask = { ...asked, model: "saved", n: 2 };
    expect((await chat(at.gateway, await at.gateway.key(), ask)).status).toBe(502);
    const reply = await chat(at.gateway, await at.gateway.key(), ask);
    expect([reply.status, reply.headers.get("retry-after")]).toEqual([502, "7"]);
  });

  test("returns the provider's message about a bad request", async () => {
    const words = "max_tokens: 999999 > 64000, which is the maximum allowed";
    at.providers.claude.answer = refused(400, "invalid_request_error", words);
    expectRefusal(await chat(at.gateway, await at.gateway.key(), { ...asked, model: "saved" }), [
      400,
      "invalid_request_error",
      words,
    ]);
  });
});

describe("the usage at the start of a stream", () => {
  test.each<[string, unknown]>([
    ["no usage", null],
    ["an impossible usage", { output_tokens: -7 }],
  ])("counts for the prompt when the end has %s; the completion is estimated", async (_, usage) => {
    at.providers.claude.answer = begunMessage(textEvent(" there"), endEvent(usage), stopEvent);
    const key = await at.gateway.key();
    await chat(at.gateway, key, { ...asked, ...streaming });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      {
        status: "done",
        estimated: true,
        // "Hello there" has 11 bytes: an estimate of 3 tokens.
        charge: costOf({ prompt: 20, completion: 3, cached: 5, cacheWrite: 3 }),
      },
    ]);
  });

  test("does not replace a smaller usage at the end", async () => {
    const start = { ...messageUsage, output_tokens: 500 };
    at.providers.claude.answer = stream(
      messageEvent("message_start", { message: message({ content: [], usage: start }) }),
      textEvent("Hello"),
      endEvent({ output_tokens: 7 }),
      stopEvent,
    );
    const key = await at.gateway.key();
    await chat(at.gateway, key, { ...asked, stream: true });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ estimated: false, charge: exact }]);
  });
});

test("reasoning is estimated once when it also comes signed", async () => {
  const index = 0;
  at.providers.claude.answer = stream(
    startEvent,
    messageEvent("content_block_start", {
      index,
      content_block: { type: "thinking", thinking: "", signature: "" },
    }),
    messageEvent("content_block_delta", {
      index,
      delta: { type: "thinking_delta", thinking: "x".repeat(400) },
    }),
    messageEvent("content_block_delta", {
      index,
      delta: { type: "signature_delta", signature: "s".repeat(4000) },
    }),
    messageEvent("content_block_stop", { index }),
    endEvent(null),
    stopEvent,
  );
  const key = await at.gateway.key();
  const chunks = chunksOf(await chat(at.gateway, key, { ...asked, stream: true }));
  expect(JSON.stringify(chunks)).toContain('"thinking_blocks":[{"type":"thinking","thinking":"xxx');
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { estimated: true, promptTokens: 20, completionTokens: 100 },
  ]);
});

test("a configured header replaces the adapter's header", async () => {
  at.providers.claude.answer = usualMessage;
  await chat(at.gateway, await at.gateway.key(), { ...asked, model: "headed" });
  expect(Object.fromEntries(at.providers.claude.requests[0]?.headers ?? [])).toMatchObject({
    "anthropic-version": "2099-01-01",
    "anthropic-beta": "context-1m-2025-08-07",
    "x-api-key": apiKey,
  });
});
