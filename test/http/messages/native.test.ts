import { describe, expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage, messageEvents, sendMessage } from "../../support/gateway/messagesCalls.ts";
import {
  begunMessage,
  endEvent,
  message,
  messageEvent,
  pingEvent,
  startEvent,
  stopEvent,
  textEvent,
  usualMessage,
} from "../../support/provider/anthropicAnswers.ts";
import {
  cut,
  json,
  piece,
  raw,
  stream,
  streamHead,
  text,
} from "../../support/provider/scriptedProvider.ts";

const apiKey = "sk-ant-of-the-operator";
const route = { provider: "claude", responses: false };

const at = openBefore(["claude", "second"], ({ claude, second }) => ({
  providers: {
    claude: { base_url: claude, kind: "anthropic", api_key: apiKey },
    second: { base_url: second, kind: "anthropic", api_key: apiKey },
  },
  models: [
    { id: "small", routes: [route] },
    { id: "searching", routes: [route], settings: { rub_web_search_per_1k: 900_000 } },
    { id: "renamed", routes: [{ ...route, model: "vendor/claude-2" }] },
    { id: "saved", routes: [route, { ...route, provider: "second" }] },
  ],
  sections: { billing: { disconnect_grace: "120ms" } },
}));

const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const done = { endpoint: "messages", status: "done", estimated: false, charge: exact };

/** Members that change when they are parsed and written again. */
const oddities = [
  ["escapes and blanks", '"max_tokens":9,"messages":[{"role":"user","content":"a \\u0041 \\/ и"}]'],
  [
    "numbers",
    '"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"big":12345678901234567890,"one":1.0',
  ],
  [
    "signatures, cache control and calls",
    '"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"max_tokens":9,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"EqQB"},{"type":"redacted_thinking","data":"abc"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"id":12345678901234567890}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}]',
  ],
  [
    "unknown fields and instructions in the middle",
    '"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"system","content":"Be brief."}],"context_management":{"edits":[]},"new_field":{"x":null}',
  ],
] as const;

describe("the request that the provider receives", () => {
  test.each(oddities)("has the client's bytes with another model: %s", async (_, members) => {
    at.providers.claude.answer = usualMessage;
    const body = `{${members},\n  "model" : "renamed"\t}`;
    expect((await sendMessage(at.gateway, await at.gateway.key(), body)).status).toBe(200);
    const sent = body.replace('"model" : "renamed"', '"model" : "vendor/claude-2"');
    expect(at.providers.claude.requests.map((request) => request.body)).toEqual([sent]);
  });

  test("has the client's version and betas, and the operator's key", async () => {
    at.providers.claude.answer = usualMessage;
    const key = await at.gateway.key();
    const betas = "interleaved-thinking-2025-05-14,context-management-2025-06-27";
    const own = { "anthropic-version": "2099-01-01", "anthropic-beta": betas, "x-app": "cli" };
    await sendMessage(at.gateway, key, {}, own);
    const [request] = at.providers.claude.requests;
    expect(request?.requestLine).toBe("POST /v1/messages HTTP/1.1");
    const headers = Object.fromEntries(request?.headers ?? []);
    expect(headers).toMatchObject({
      "x-api-key": apiKey,
      "anthropic-version": "2099-01-01",
      "anthropic-beta": betas,
    });
    expect(headers).not.toHaveProperty("x-app");
    expect(request?.text).not.toContain(key.key);
  });

  test("has the usual version if the client sends none", async () => {
    at.providers.claude.answer = usualMessage;
    await sendMessage(at.gateway, await at.gateway.key());
    const headers = Object.fromEntries(at.providers.claude.requests[0]?.headers ?? []);
    expect(headers["anthropic-version"]).toBe("2023-06-01");
    expect(headers).not.toHaveProperty("anthropic-beta");
  });

  test("has no reasoning that another kind of provider wrote", async () => {
    at.providers.claude.answer = usualMessage;
    const messages = [
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "tollgate-translated" },
          { type: "text", text: "Hello" },
        ],
      },
      {
        role: "assistant",
        content: [{ type: "thinking", thinking: "hm", signature: "tollgate-translated" }],
      },
      { role: "user", content: "again" },
    ];
    await sendMessage(at.gateway, await at.gateway.key(), { messages });
    expect(at.providers.claude.requests[0]?.json["messages"]).toEqual([
      { role: "user", content: "hi" },
      { role: "assistant", content: [{ type: "text", text: "Hello" }] },
      { role: "user", content: "again" },
    ]);
  });
});

/** Events with fields and of types that the gateway does not know. */
const unknownEvents = [
  messageEvent("content_block_start", { index: 1, content_block: { type: "new_block", x: 1 } }),
  messageEvent("content_block_delta", {
    index: 1,
    delta: { type: "citations_delta", citation: { type: "char_location", cited_text: "x" } },
  }),
  messageEvent("new_event", { anything: [1, 2] }),
  "event: new_event\ndata: not JSON\n\n",
  ": a comment\n\n",
];

test("a text that is nested too deep to be written again has the client's bytes", async () => {
  at.providers.claude.answer = usualMessage;
  const depth = 100_000;
  const input = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
  const block = `{"type":"tool_use","id":"x","name":"f","input":${input}}`;
  const messages = `[{"role":"user","content":"tollgate-translated"},{"role":"assistant","content":[${block}]}]`;
  const body = `{"model":"small","max_tokens":9,"messages":${messages}}`;
  expect((await sendMessage(at.gateway, await at.gateway.key(), body)).status).toBe(200);
  expect(at.providers.claude.requests.map((request) => request.body)).toEqual([body]);
});

describe("the answer that the client receives", () => {
  test("has the provider's bytes in JSON", async () => {
    const body = ` {"odd":1.0,${JSON.stringify(message()).slice(1)}\n`;
    at.providers.claude.answer = text(body);
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key);
    expect([reply.status, reply.text]).toEqual([200, body]);
    expect(reply.headers.get("x-tollgate-cost-rub")).toBe(formatRoubles(exact));
    expect(await at.gateway.records(key, 1)).toMatchObject([done]);
  });

  test("has the provider's events, also unknown ones", async () => {
    const texts = [
      startEvent,
      pingEvent,
      textEvent("Hello"),
      textEvent(' "quoted"'),
      ...unknownEvents,
      textEvent(" there"),
      endEvent(),
      messageEvent("trailing_event"),
      stopEvent,
    ];
    at.providers.claude.answer = stream(...texts);
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { stream: true });
    expect(reply.text).toBe(texts.join(""));
    expect(await at.gateway.records(key, 1)).toMatchObject([done]);
  });

  test("has a terminator if the provider sent none", async () => {
    at.providers.claude.answer = begunMessage(endEvent());
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { stream: true });
    expect(
      messageEvents(reply.text)
        .map(({ name }) => name)
        .slice(-2),
    ).toEqual(["message_delta", "message_stop"]);
    expect(await at.gateway.records(key, 1)).toMatchObject([done]);
  });

  test("ends with an error event if the provider fails after the content", async () => {
    at.providers.claude.answer = cut("reset", streamHead, piece(startEvent + textEvent("Hello")));
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { stream: true });
    expect(messageEvents(reply.text).at(-1)).toEqual({
      name: "error",
      data: {
        type: "error",
        error: { type: "api_error", message: "upstream provider failure" },
        request_id: reply.id,
      },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("has no terminator if it ends without a reason, and costs nothing", async () => {
    at.providers.claude.answer = begunMessage(textEvent(" there"), stopEvent);
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { stream: true });
    const names = messageEvents(reply.text).map(({ name }) => name);
    expect(names.slice(-2)).toEqual(["content_block_delta", "error"]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test.each([false, true])("comes from the next route, stream %p", async (isStream) => {
    const overloaded = { type: "error", error: { type: "overloaded_error", message: "busy" } };
    at.providers.claude.answer = isStream
      ? stream(startEvent, messageEvent("error", overloaded))
      : json(overloaded, { status: 529 });
    at.providers.second.answer = usualMessage;
    const key = await at.gateway.key();
    const reply = await sendMessage(at.gateway, key, { model: "saved", stream: isStream });
    expect(reply.status).toBe(200);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ ...done, provider: "second" }]);
  });
});

/** The block of a search that found one page. */
const foundEvent = messageEvent("content_block_start", {
  index: 0,
  content_block: {
    type: "web_search_tool_result",
    tool_use_id: "srvtoolu_1",
    content: [{ type: "web_search_result", url: "https://example.com", encrypted_content: "x" }],
  },
});

test("a client that disconnects after a search pays for it", async () => {
  at.providers.claude.answer = raw(streamHead, piece(startEvent + foundEvent + textEvent("Hello")));
  const key = await at.gateway.key();
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  const abort = new AbortController();
  const response = await fetch(`${at.gateway.url}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": key.key, "content-type": "application/json" },
    body: JSON.stringify(askMessage({ model: "searching", stream: true, tools })),
    signal: abort.signal,
  });
  await response.body?.getReader().read();
  abort.abort();
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "cancelled", estimated: true, webSearches: 1, writeOff: 0n },
  ]);
});
